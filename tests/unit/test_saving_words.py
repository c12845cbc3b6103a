"""The last words of a recording: no verdict where it could not be worked out."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlscope_trace.cli import saving
from rlscope_trace.ingest.writer.trace_stats import TraceStat


@pytest.mark.parametrize(("reason", "said"), [("Out of Memory Error", []), (None, ["a verdict"])])
def test_a_verdict_that_took_too_much_memory_is_not_said(
    monkeypatch: pytest.MonkeyPatch, reason: str | None, said: list[str]
) -> None:
    monkeypatch.setenv("RLSCOPE_MEMORY_LIMIT", "128MB")
    monkeypatch.setattr(saving, "open_trace", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(saving, "overview", lambda _: SimpleNamespace(reason=reason))
    monkeypatch.setattr(saving, "verdict", lambda _: None)
    monkeypatch.setattr(saving, "sentence_of", lambda _: "a verdict")
    words: list[str] = []
    monkeypatch.setattr(saving.messages, "say", words.append)
    saving._say_verdict(Path("trace.duckdb"))
    assert words == said


@pytest.mark.parametrize(
    ("code", "count", "records", "level"),
    [
        ("wakeup_unseen", 19, 29_445, "note"),
        ("wakeup_unseen", 300, 29_445, "warning"),
        ("wakeup_unseen", None, 29_445, "warning"),
        ("ring_full", 1, 29_445, "warning"),
    ],
)
def test_a_few_wakeups_that_were_not_seen_are_no_warning(
    capsys: pytest.CaptureFixture[str], code: str, count: int | None, records: int, level: str
) -> None:
    loss = TraceStat(code, count)
    saving._report_losses((loss,), records)
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith(f"{level}: ")
    assert any(line.startswith("hint: ") for line in said) == (level == "warning")
