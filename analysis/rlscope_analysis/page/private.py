"""The words of a trace that tell who ran what on which machine."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from rlscope_analysis.query import run_query

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlscope_analysis.trace import Trace

# Words of a command line that are no names (20, --env, train) stand in many a harmless text.
_LEAST_LENGTH = 4
_NAME = re.compile(r"(?=.*[a-zA-Z])(?=.*[^a-zA-Z])[^-].*")
# Of a title the beginning may be shown.
_TITLE_LENGTH = 24
# Interpreters and programs that are no secret; the name of a thread is often the same.
_KNOWN = re.compile(r"(python|pypy)[0-9.]*|rlscope-trace|record|bash|torchrun|true|false")
_OWNERS = re.compile(r"/(?:home|Users|data/home)/([^/\s\"']+)")
_LINES_SQL = "SELECT DISTINCT unnest([command, title]) FROM process"
_META_SQL = "SELECT key, value FROM meta WHERE key IN ('argv', 'command', 'host')"


def private_words(trace: Trace) -> Iterator[str]:
    """Yield hosts, users, whole command lines and titles, and their words; some of them twice."""
    lines = {line for (line,) in run_query(trace, _LINES_SQL).rows if line}
    arguments: set[str] = set()
    for key, value in run_query(trace, _META_SQL).rows:
        if key == "host":
            yield from [value] if value else []
        elif value:
            arguments.update(_arguments(value))
    for (host,) in run_query(trace, "SELECT DISTINCT host FROM process").rows:
        yield from [host] if host else []
    # An argument of one word is a name, or stands in many a harmless text.
    whole = {*lines, *(argument for argument in arguments if " " in argument)}
    for line in sorted(whole):
        if len(line) >= _LEAST_LENGTH and not _KNOWN.fullmatch(line):
            yield from (line, line[:_TITLE_LENGTH])
    for line in sorted(lines | arguments):
        yield from _OWNERS.findall(line)
        for word in re.split(r"[\s=]+", line):
            for name in (word, word.rpartition("/")[2]):
                is_name = len(name) >= _LEAST_LENGTH and _NAME.fullmatch(name)
                if is_name and not _KNOWN.fullmatch(name):
                    yield name


def _arguments(value: str) -> list[str]:
    try:
        found = json.loads(value)
    except ValueError:
        return [value]
    return [str(word) for word in found] if isinstance(found, list) else [value]
