"""docs/ says what the code says."""

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

from rlscope_analysis.summary.values import Latency, StateTimes, Switches, Waker
from trace_builder import REPOSITORY

DOCS = REPOSITORY / "scripts/docs"


def run_docs(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(DOCS), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_schema_page_is_current() -> None:
    done = run_docs("--check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_stale_page_is_told_and_mended(tmp_path: object) -> None:
    """On a copy: the script works on the checkout it lies in."""
    copy = REPOSITORY.__class__(str(tmp_path))
    for name in (
        "scripts/docs",
        "docs/schema.md",
        "docs/findings.md",
        "analysis/rlscope_analysis",
    ):
        source, target = REPOSITORY / name, copy / name
        files = source.rglob("*") if source.is_dir() else [source]
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
                to = target / file.relative_to(source) if source.is_dir() else target
                to.parent.mkdir(parents=True, exist_ok=True)
                to.write_bytes(file.read_bytes())
    command = [sys.executable, str(copy / "scripts/docs")]
    page = copy / "docs/schema.md"
    current = page.read_text()
    page.write_text(current.replace("What the trace lacks", "What it has"))
    stale = subprocess.run([*command, "--check"], capture_output=True, text=True, check=False)
    assert stale.returncode == 1
    assert "-What it has" in stale.stdout
    assert "+What the trace lacks" in stale.stdout
    assert stale.stderr.endswith("hint: scripts/docs\n")
    subprocess.run(command, check=True)
    assert page.read_text() == current


def test_summary_page_names_every_number() -> None:
    page = (REPOSITORY / "docs/summary.md").read_text()
    quoted = set(re.findall(r"`(\w+)`", page))
    for values in (StateTimes, Switches, Latency, Waker):
        for value in fields(values):
            assert value.name in quoted, f"docs/summary.md does not name {value.name}"


def test_pictures_are_of_pages_as_they_are(tmp_path: Path) -> None:
    """Of each picture a part is told that has changed since."""
    pictures = REPOSITORY / "scripts/pictures"
    done = subprocess.run(
        [sys.executable, pictures, "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/support").symlink_to(REPOSITORY / "tests/support")
    for copied in ("scripts/pictures", "docs/pictures/parts.txt"):
        (tmp_path / copied).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / copied).write_bytes((REPOSITORY / copied).read_bytes())
    parts = tmp_path / "docs/pictures/parts.txt"
    parts.write_text(parts.read_text().replace("environment steps/s", "steps/s"))
    stale = subprocess.run(
        [sys.executable, tmp_path / "scripts/pictures", "--check"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert stale.returncode == 1
    assert "-report: steps/s\n+report: environment steps/s\n" in stale.stdout
    assert stale.stderr.endswith("hint: sudo scripts/pictures\n")
