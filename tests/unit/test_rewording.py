"""Codes decide, sentences do not: other words change no number and no column of any view."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from rlscope_analysis import sentences
from rlscope_analysis.catalog import describe
from rlscope_analysis.derive import complete
from rlscope_analysis.note_sentences import sentence_of
from rlscope_analysis.schema.facts.coverage import COVERAGE, FORMER
from rlscope_analysis.schema.facts.fact import Fact
from rlscope_analysis.schema.facts.losses import LOSSES
from rlscope_analysis.schema.facts.qualities import REASONS, quality
from rlscope_analysis.schema.facts.sites import SITE_REASONS
from rlscope_analysis.summary.notes import site_notes, unmeasured_notes
from rlscope_analysis.trace import open_trace
from rlscope_trace.ingest.writer.trace_stats import TraceStat
from trace_builder import REPOSITORY, TraceBuilder, insert_rows, run, sleep

PACKAGES = ("analysis/rlscope_analysis", "tracer/rlscope_trace")
VOCABULARIES: list[dict[str, Any]] = [LOSSES, COVERAGE, SITE_REASONS, REASONS]


def everything() -> dict[str, list[tuple[object, ...]]]:
    """Return every row of every relation of a trace that lacks all that a trace can lack."""
    builder = TraceBuilder(Path("unused"), with_views=False)
    process = builder.process(pid=1, end_ns=1000)
    thread = builder.thread(process, states=[run(400), sleep(200), run(400)])
    for kind in ("thread_state", "operation", "native_call"):
        builder.coverage(kind)
    for number, code in enumerate(COVERAGE):
        fact = Fact(code, "subject", "detail", 3, 5, 7)
        builder.coverage(f"kind{number}", fact=fact)
        builder.coverage(f"other{number}", process_id=process, measured=False, fact=fact)
    builder.operation(thread, 0, 900, "step")
    builder.native_call(thread, 10, 20, "simulator", "mj_step")
    for code in SITE_REASONS:
        builder.site("backend", code, state="not_probed", code=code)
    for code in REASONS:
        builder.cost("call", 10.0, method=code, quality=quality(code, 1, 2, 3, 4))
    with duckdb.connect() as connection:
        builder.fill(connection)
        rows = [TraceStat(code, 2, 1, 0, "call", 1, 1 << 20, "why").row for code in LOSSES]
        insert_rows(connection, "trace_stat", rows)
        complete(connection)
        return {
            relation.name: sorted(connection.execute(f"FROM {relation.name}").fetchall(), key=repr)
            for relation in describe(connection)
        }


def test_other_words_change_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    before = everything()
    for vocabulary in VOCABULARIES:
        for number, (code, entry) in enumerate(vocabulary.items()):
            monkeypatch.setitem(vocabulary, code, replace(entry, sentence=f"sentence {number}"))
    assert sentences.coverage_sentence([Fact("pypy")], measured=False).startswith("sentence")
    assert everything() == before


def test_other_words_change_no_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = TraceBuilder(tmp_path / "run.duckdb")
    for pid, code in enumerate(("not_launched", "shim_missing", "other_recorder"), 1):
        process = builder.process(pid=pid, end_ns=10)
        builder.thread(process, states=[run(10)])
        fact = Fact(code, "subject")
        builder.coverage("operation", process_id=process, measured=False, fact=fact)
    for code in ("refused", "too_many", "recorder_failed"):
        builder.site("backend", code, state="not_probed", code=code)
    builder.write()
    orders = []
    for first, step in ((100, 1), (900, -1)):
        numbers = itertools.count(first, step)
        for vocabulary in (COVERAGE, SITE_REASONS):
            for code, entry in vocabulary.items():
                words = f"{next(numbers)} {code}"
                monkeypatch.setitem(vocabulary, code, replace(entry, sentence=words))
        with open_trace(builder.path) as trace:
            said = [sentence_of(one) for one in (*unmeasured_notes(trace), *site_notes(trace))]
        orders.append([re.sub(r"\d{3} ", "", sentence) for sentence in said])
    assert len(orders[0]) >= 6
    assert orders[0] == orders[1]


@pytest.mark.parametrize("vocabulary", VOCABULARIES, ids=["loss", "coverage", "site", "quality"])
def test_each_code_is_used_and_can_be_said(vocabulary: dict[str, Any]) -> None:
    """An entry that nobody writes is dead, and so is one whose sentence names no parameter."""
    text = "\n".join(
        path.read_text(encoding="utf-8")
        for package in PACKAGES
        for path in (REPOSITORY / package).rglob("*")
        if path.suffix in {".py", ".sql"} and "facts" not in path.parts
    )
    written = set(re.findall(r"""["'](\w+)["']""", text))
    # Of a pair, by whether it helps to record from the start.
    written |= {f"{code}_late" for code in written}
    assert vocabulary.keys() - written - FORMER.keys() == set()


@pytest.mark.parametrize("code", LOSSES)
def test_every_parameter_of_a_loss_is_one(code: str) -> None:
    parameters = {"cpu": 1, "record": "r", "pid": 2, "bytes": 3 << 20, "detail": "d"}
    source, remedy = sentences.loss_sentence(code, parameters)
    assert "?" not in source + (remedy or "")


@pytest.mark.parametrize("code", COVERAGE)
def test_every_parameter_of_a_fact_is_one(code: str) -> None:
    said = sentences.coverage_sentence([Fact(code, "s", "d", 1, 2, 3)], measured=True)
    assert said
    # One sentence asks by itself.
    assert said.count("?") == COVERAGE[code].sentence.count("?")


@pytest.mark.parametrize("code", REASONS)
def test_every_parameter_of_a_quality_is_one(code: str) -> None:
    numbers = [1.0] * len(REASONS[code].numbers)
    assert "?" not in sentences.quality_sentence(
        *quality(code, *numbers, subject="s", detail="d").columns
    )


@pytest.mark.parametrize("code", SITE_REASONS)
def test_every_parameter_of_a_site_is_one(code: str) -> None:
    numbers = [1.0] * len(SITE_REASONS[code].numbers)
    assert "?" not in sentences.site_sentence("dropped", code, "d", numbers)


def test_a_code_of_a_newer_writer_is_shown_as_it_is() -> None:
    assert sentences.loss_sentence("never_heard_of", {"detail": "why"}) == (
        "never_heard_of: why", None,
    )  # fmt: skip
    assert sentences.coverage_sentence([Fact("never_heard_of")], measured=True) == "never_heard_of"
    assert sentences.loss_sentence("ring_full", {})[0] == "ring cpu ? ?"
