"""The words of the vocabulary: codes of native code stand for them, and SQL compares with them."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from rlscope_analysis.critical_path import relations_sql
from rlscope_analysis.schema import SCHEMA_TOPICS, schema_sql
from rlscope_analysis.schema.enums import ENUMS, code_of, types_sql, word_of

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).resolve().parents[2]
# Where native code says which code stands for which word.
NATIVE = {
    "CAUSE": ("analysis/native/critical_path_rows.h", "Cause"),
    "WAIT_KIND": ("tracer/native/spool/wait_kind.h", "WaitKind"),
    "THREAD_STATE": ("tracer/native/spool/state_rows.h", "ThreadState"),
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
    if type_name == "THREAD_STATE":
        del words["lost"]  # is no interval
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


def word_columns() -> set[str]:
    """Return the names of all columns of an ENUM type, wherever they are declared."""
    declared = "".join([*map(schema_sql, SCHEMA_TOPICS), relations_sql()])
    return set(re.findall(rf"\b(\w+) (?:{'|'.join(ENUMS)})\b", declared))


def sql_texts() -> Iterator[tuple[str, str]]:
    """Yield the places and texts of all that is SQL or may be a part of it, comments left out."""
    for package in ("analysis/rlscope_analysis", "tracer/rlscope_trace"):
        for path in sorted((REPOSITORY / package).rglob("*")):
            place = str(path.relative_to(REPOSITORY))
            if path.suffix == ".sql":
                yield place, re.sub(r"--.*", "", path.read_text(encoding="utf-8"))
            elif path.suffix == ".py":
                for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                    if isinstance(node, ast.Constant) and isinstance(node.value, str):
                        yield place, node.value
                    elif isinstance(node, ast.JoinedStr):
                        yield (
                            place,
                            "".join(
                                str(part.value) if isinstance(part, ast.Constant) else "{}"
                                for part in node.values
                            ),
                        )


def numbers_compared(sql: str, columns: set[str]) -> list[str]:
    """Return the comparisons of such a column, or of one named after it, with a number."""
    name = rf"\b(?:\w+_)?(?:{'|'.join(sorted(columns))})\b"
    compared = rf"{name}\s*(?:[=<>!]+|(?:NOT )?IN\s*\(|BETWEEN)\s*(?:-?\d|\{{\}})"
    return [
        found[0]
        for pattern in (compared, rf"\bCASE (?:\w+\.)?{name} WHEN \d", rf"{name}\s*&\s*\d")
        for found in re.finditer(pattern, sql)
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "state = 2", "s.state<>5", "previous_state IN (2, 3)", "kind NOT IN ( 1)",
        "layer BETWEEN 1 AND 4", "CASE o.layer WHEN 1 THEN 'python' END", "kind > {}",
    ],
)  # fmt: skip
def test_a_comparison_with_a_code_is_found(sql: str) -> None:
    assert numbers_compared(sql, {"state", "kind", "layer"})


def test_no_sql_compares_a_word_with_a_code() -> None:
    columns = word_columns()
    assert {"state", "layer", "kind", "cause", "event", "method", "outcome"} <= columns
    found = {
        f"{place}: {text}" for place, sql in sql_texts() for text in numbers_compared(sql, columns)
    }
    assert not found
