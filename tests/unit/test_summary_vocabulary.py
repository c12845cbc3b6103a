"""The words that writer and readers share are the same on both sides."""

import ast
import re

from rlscope_analysis.vocabulary import SCHEMA_VERSION, THREAD_STATES, WAKER_KINDS
from trace_builder import REPOSITORY, SCHEMA_SQL


def test_the_writer_writes_the_schema_that_the_readers_know() -> None:
    """Read from the source: importing the writer would need the native module."""
    written = [
        ast.literal_eval(node.value)
        for file in (REPOSITORY / "tracer/rlscope_trace/store").glob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Assign)
        and [ast.unparse(target) for target in node.targets] == ["SCHEMA_VERSION"]
    ]
    assert [int(version) for version in written] == [SCHEMA_VERSION]


def test_codes_are_those_of_the_schema() -> None:
    schema = SCHEMA_SQL.read_text()
    states = ", ".join(f"{code} {name}" for code, name in enumerate(THREAD_STATES))
    assert f"state IS '{states}'" in schema
    kinds = dict(re.findall(r"waker = (-\d) THEN '(\w+)'", schema))
    assert {int(code): kind for code, kind in kinds.items()} == WAKER_KINDS
