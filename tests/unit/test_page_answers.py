"""`--format html`: any answer as a page whose numbers are those of the answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from compared_traces import MS, Step, write_trace
from page_reader import Page
from page_traces import COMMAND, HOME, training
from recording import rlscope
from rlscope_analysis.renderers.html.answer import render
from rlscope_analysis.result.column import Column, Unit
from rlscope_analysis.result.table import Answer, Table

if TYPE_CHECKING:
    from pathlib import Path


SECRETS = ("secrethost", "alice", "train_it", "hunter2", "secret_base", "secret_new")


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("sides")
    base = write_trace(folder / "base.duckdb", [Step()] * 12)
    new = write_trace(folder / "new.duckdb", [Step(simulation=44 * MS)] * 12)
    return base, new


def test_the_page_of_a_comparison_says_what_json_says(sides: tuple[Path, Path]) -> None:
    ask = ("compare", *sides, "--per", "iteration", "--all")
    facts = json.loads(rlscope(*ask, "--format", "json").stdout)
    done = rlscope(*ask, "--format", "html")
    assert done.returncode == 0, done.stderr
    page = Page(done.stdout)
    said = " ".join(rlscope(*ask).stdout.split())
    assert said.startswith(page.by_id("verdict").text)
    table = next(one for one in page.by_id("table-0").inside if one.name == "table")
    lines = [one for one in table.inside if one.name == "tr" and one.inside[0].name == "td"]
    wanted = [row for row in facts["changes"] if row["time"] == "wall" and not row["is_sum"]]
    assert wanted
    assert len(lines) == len(wanted) + 1  # and their sum
    largest = max(abs(row["change_ns"]) for row in wanted)
    for line, row in zip(lines, wanted, strict=False):
        exact = [float(one.given["data-v"] or 0) for one in line.inside if "data-v" in one.given]
        for name in ("base_ns", "new_ns", "change_ns"):
            assert any(value == pytest.approx(row[name]) for value in exact), name
        shown = [one for one in line.inside if one.given.get("data-v")]
        assert float(shown[0].text) * 1e6 == pytest.approx(row["base_ns"], abs=5e3)
        (bar,) = [one for one in line.inside if one.name == "rect"]
        width = float((bar.given["width"] or "0%")[:-1])
        assert width == pytest.approx(abs(row["change_ns"]) / largest * 50, abs=0.01)
        assert bar.given["class"] == ("queue" if row["change_ns"] > 0 else "f1")


def test_a_redacted_comparison_does_not_tell_who_ran_what_where(tmp_path: Path) -> None:
    """Also not what only the other side holds."""
    base = training(tmp_path / "secret_base.duckdb", workers=2)
    new = training(tmp_path / "secret_new.duckdb", name=COMMAND[:15])
    new.process(pid=9, name="x", command=f"other_tool /data{HOME}/x")
    ask = ("compare", base.write(), new.write(), "--all")
    shown = rlscope(*ask, "--format", "html").stdout
    place = tmp_path / "change.html"
    done = rlscope(*ask, "-o", place, "--redact")
    assert (done.returncode, done.stderr) == (0, f"wrote {place}\n")
    hidden = place.read_text()
    assert [word for word in SECRETS if word in shown] == ["secret_base", "secret_new"]
    assert not [word for word in SECRETS if word in hidden]
    assert "simulation" in hidden
    assert "base: (hidden) · new: (hidden)" in hidden
    more = rlscope("compare", "--base", base.path, "--new", new.path, base.path, "--format",
                   "html", "--redact").stdout  # fmt: skip
    assert "base: (hidden) · new: (hidden 1), (hidden 2)" in more
    # The numbers are the same.
    numbers = [one.given.get("data-v") for one in Page(shown).elements]
    assert [one.given.get("data-v") for one in Page(hidden).elements] == numbers


def test_a_page_of_everything_is_bounded_and_says_what_it_leaves_out() -> None:
    columns = (Column("what"), Column("is_so", Unit.FLAG))
    table = Table(
        "t", "many", columns, [(f"row {at}", at == 0) for at in range(1_000)], noun="part"
    )
    page = Page(render(Answer((table,), table, {}), limit=None))
    lines = [one.text for one in page.by_id("table-0").inside if one.name == "td"]
    assert len(lines) == 2 * 300
    assert lines[:4] == ["row 0", "yes", "row 1", "no"]
    assert "700 more parts: not on a page" in page.by_id("table-0").text


def test_what_is_read_is_never_replaced(tmp_path: Path) -> None:
    """By no name, and in no format."""
    trace = training(tmp_path / "trace.duckdb", rounds=3).write()
    (tmp_path / "link.html").symlink_to(trace)
    (tmp_path / "hard.json").hardlink_to(trace)
    before = trace.read_bytes()
    for output in (trace, tmp_path / "link.html", tmp_path / "hard.json"):
        for ask in (
            ("compare", trace, trace), ("report", trace), ("export", "perfetto", trace),
            ("summarize", trace), ("gate", "--base", trace, "--new", trace, "--save", output),
        ):  # fmt: skip
            done = rlscope(*ask, *(() if "gate" in ask else ("-o", output)), "--force")
            assert done.returncode == 2, done.stderr
            assert "is what is read" in done.stderr
    assert trace.read_bytes() == before


def test_the_name_of_the_output_says_the_format(sides: tuple[Path, Path], tmp_path: Path) -> None:
    formats = {"a.json": "json", "a.md": "markdown", "a.csv": "csv", "a": "table"}
    for name, option in formats.items():
        place = tmp_path / name
        assert rlscope("compare", *sides, "-o", place).returncode == 0
        assert place.read_text() == rlscope("compare", *sides, "--format", option).stdout
        refused = rlscope("compare", *sides, "-o", place)
        assert refused.returncode == 2
        assert "overwrite it with --force" in refused.stderr
    assert rlscope("compare", *sides, "-o", tmp_path / "a.x", "--format", "csv").returncode == 0
    for given, error, hint in (
        (("-o", "a.x"), "which format a.x is to have is not clear from its name", "-o FILE.html, "),
        (("-o", "a.html", "--format", "json"), "a.html is a name for html, and --format says json",
         "--format html, or -o FILE.json"),
        (("-o", tmp_path, "--format", "html"), f"{tmp_path} is a directory", "-o FILE.html"),
    ):  # fmt: skip
        for command in (("compare", *sides), ("summarize", sides[0])):
            refused = rlscope(*command, *given)
            assert refused.returncode == 2
            assert refused.stderr.startswith(f"error: {error}\nhint: {hint}")
    for command, hint in (
        ("report", "-o FILE.html"), ("export perfetto", "-o FILE.pftrace.gz"),
        ("export chrome", "-o FILE.json.gz"),
    ):  # fmt: skip
        refused = rlscope(*command.split(), sides[0], "-o", tmp_path)
        assert refused.stderr == f"error: {tmp_path} is a directory\nhint: {hint}\n"
    refused = rlscope("compare", *sides, "--redact")
    assert refused.returncode == 2
    assert "only a page can be redacted" in refused.stderr


def test_any_answer_is_a_page_that_asks_nobody(tmp_path: Path) -> None:
    name = "</script><b>\"'\x1b"
    trace = training(tmp_path / "trace.duckdb", rounds=4, phase=name).write()
    for ask in (("summarize", trace, "--view", "cpu"), ("explain", trace), ("summarize", trace)):
        done = rlscope(*ask, "--format", "html")
        assert done.returncode == 0, done.stderr
        page = Page(done.stdout)
        policy = next(one for one in page.elements if one.given.get("http-equiv"))
        assert (policy.given["content"] or "").startswith("default-src 'none'; style-src 'sha256-")
        assert name not in done.stdout
        assert "\x1b" not in done.stdout
        assert done.stdout.count("</script>") == 1
        assert [one for one in page.elements if one.name == "table"]
