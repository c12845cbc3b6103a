"""What --last says: of how much time the end is kept."""

import re

from rlscope_trace.errors import UsageError

_LAST = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)(s?|m|h)", re.ASCII)
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
_LEAST_S, _MOST_S = 1.0, 86_400.0


def last_seconds(text: str) -> float:
    """Return the seconds of --last; UsageError where it names none."""
    found = _LAST.fullmatch(text)
    seconds = float(found[1]) * _UNITS[found[2]] if found is not None else 0.0
    if not _LEAST_S <= seconds <= _MOST_S:
        raise UsageError(
            f"--last {text} is no time from 1 s to 24 h", hint="--last 60, or --last 5m"
        )
    return seconds
