"""The words of the vocabulary: codes of native code stand for them, and SQL compares with them."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from rlscope_analysis.schema.enums import ENUMS, code_of, types_sql, word_of

REPOSITORY = Path(__file__).resolve().parents[2]
# Where native code says which code stands for which word.
NATIVE = {
    "CAUSE": ("analysis/native/critical_path_rows.h", "Cause"),
    "WAIT_KIND": ("tracer/native/spool/wait_kind.h", "WaitKind"),
}


def enumerators(header: str, name: str) -> dict[str, int]:
    """Return the code of each enumerator of an enum class, in the words of SQL."""
    text = (REPOSITORY / header).read_text(encoding="utf-8")
    found = re.search(rf"enum class {name} : [\w:]+ \{{(.*?)\}};", text, re.DOTALL)
    assert found, f"{header} has no enum class {name}"
    codes: dict[str, int] = {}
    body = re.sub(r"//.*", "", found[1])
    for enumerator, value in re.findall(r"\bk(\w+)(?: = (\d+))?", body):
        word = re.sub(r"(?<=.)([A-Z])", r"_\1", enumerator).lower()
        codes[word] = int(value) if value else len(codes)
    return codes


@pytest.mark.parametrize("type_name", NATIVE)
def test_native_code_has_the_codes_of_the_vocabulary(type_name: str) -> None:
    words = {word or "none": code for code, word in enumerate(ENUMS[type_name])}
    assert enumerators(*NATIVE[type_name]) == words


@pytest.mark.parametrize("type_name", ENUMS)
def test_words_become_codes_and_back(type_name: str) -> None:
    words = ENUMS[type_name]
    with duckdb.connect() as connection:
        connection.execute(types_sql())
        found = connection.execute(
            f"SELECT w::VARCHAR, {code_of(type_name, 'w')} FROM"
            f" (SELECT {word_of(type_name, 'code')} AS w, code FROM range({len(words)}) AS r(code))"
            " ORDER BY code"
        ).fetchall()
        assert found == [(word, code) for code, word in enumerate(words)]
        query = f"SELECT {word_of(type_name, '255::UTINYINT')}"
        assert connection.execute(query).fetchall() == [(None,)]
