"""The last words of a recording: no verdict where it could not be worked out."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlscope_trace.cli import saving


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
