"""The codes in the vocabulary are those of the schema's comments and views."""

import re

import pytest

from rlscope_analysis.schema import SCHEMA_TOPICS, schema_sql
from rlscope_analysis.schema.vocabulary import (
    LAYERS,
    THREAD_STATES,
    WAITS,
    WAKER_KINDS,
)

SCHEMA = "".join(schema_sql(topic) for topic in SCHEMA_TOPICS)


def case_of(view: str, column: str) -> dict[int, str]:
    """Return code -> word of the CASE that makes a column of a view, ELSE left out."""
    body = SCHEMA.partition(f"CREATE VIEW {view} AS")[2].partition(";")[0]
    found = re.search(rf"CASE (?:\w\.)?\w+ (WHEN[^;]*?) END AS {column}\b", body)
    assert found
    return {int(code): word for code, word in re.findall(r"WHEN (\d) THEN '(\w+)'", found[1])}


@pytest.mark.parametrize(
    ("view", "column", "words"),
    [
        ("thread_state", "state", THREAD_STATES[:3]),
        ("native_call", "layer", LAYERS),
        ("cpu_sample", "layer", LAYERS),
        ("wait", "kind", WAITS),
    ],
)
def test_codes_are_those_of_the_views(
    view: str, column: str, words: tuple[str | None, ...]
) -> None:
    known = {code: word for code, word in enumerate(words) if word}
    assert case_of(view, column) == known


def test_codes_are_those_of_the_comments() -> None:
    states = ", ".join(f"{code} {name}" for code, name in enumerate(THREAD_STATES))
    assert f"state IS '{states}'" in SCHEMA
    kinds = dict(re.findall(r"waker = (-\d) THEN '(\w+)'", SCHEMA))
    assert {int(code): kind for code, kind in kinds.items()} == WAKER_KINDS
    for words in (LAYERS, WAITS):
        listed = ", ".join(f"{code} {word}" for code, word in enumerate(words) if word)
        assert f"IS '{listed}" in SCHEMA, listed
