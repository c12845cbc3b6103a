"""`rlscope-trace export`: files that are there when they are complete, and only then."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rlscope_trace.cli import timeline_file
from rlscope_trace.errors import OutputExistsError, TracerError
from timeline_reader import read_chrome, read_perfetto
from trace_builder import TraceBuilder, run

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMATS = pytest.mark.parametrize("form", ["perfetto", "chrome"])
READERS = {"perfetto": read_perfetto, "chrome": read_chrome}


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    thread = builder.thread(
        builder.process(pid=5, end_ns=2 * 10**9), tid=5, states=[run(2 * 10**9)]
    )
    builder.operation(thread, 0, 5, "early")
    builder.operation(thread, 15 * 10**8, 16 * 10**8, "late")
    return builder.write()


def command(*arguments: object, **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "rlscope_trace", "export", *map(str, arguments)],
        capture_output="stdout" not in options,
        check=False,
        **options,  # type: ignore[call-overload]
    )  # fmt: skip


@FORMATS
def test_the_file_says_the_same_plain_gzipped_and_on_stdout(trace: Path, form: str) -> None:
    plain, packed = trace.with_name("plain"), trace.with_name("packed.gz")
    reported = command(form, trace, "-o", plain)
    assert (reported.returncode, reported.stdout) == (0, b"")
    assert b"wrote " in reported.stderr
    assert b"5 slices" in reported.stderr
    assert command(form, trace, "-o", packed).returncode == 0
    content = plain.read_bytes()
    assert len(READERS[form](content).slices) == 5
    assert gzip.decompress(packed.read_bytes()) == content
    assert command(form, trace, "-o", "-").stdout == content
    assert sorted(path.name for path in trace.parent.iterdir()) == [
        "packed.gz",
        "plain",
        trace.name,
    ]


@FORMATS
def test_a_window_is_in_seconds_or_with_a_unit(trace: Path, form: str) -> None:
    written = command(form, trace, "-o", "-", "--from", "1.5", "--to", "1700ms").stdout
    names = {piece.name for piece in READERS[form](written).slices}
    assert names == {"lifetime", "running", "late"}


def test_a_file_is_replaced_only_with_force(trace: Path) -> None:
    output = trace.with_name("out.pftrace")
    output.write_text("mine")
    refused = command("perfetto", trace, "-o", output)
    assert refused.returncode == 2
    assert b"exists already" in refused.stderr
    assert b"--force" in refused.stderr
    assert output.read_text() == "mine"
    assert command("perfetto", trace, "-o", output, "--force").returncode == 0
    assert len(read_perfetto(output.read_bytes()).slices) == 5


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("absent.duckdb",), 1, b"there is no trace"),
        (("{trace}", "--from", "soon"), 2, b"'soon' is no time"),
        (("{trace}", "--from", "2", "--to", "1"), 2, b"the window ends at 1"),
        (("{trace}", "--from", "99"), 1, b"the window starts at 99, and the trace lasts"),
        (("{trace}", "-o", "/nowhere/x"), 1, b"cannot write /nowhere/x: No such file"),
        (("{trace}", "-o", "/dev/full"), 1, b"cannot write /dev/full: No space left"),
    ],
)
def test_errors_are_one_line_and_a_hint(
    trace: Path, arguments: tuple[str, ...], code: int, said: bytes
) -> None:
    reported = command(
        "chrome", *(word.format(trace=trace) for word in arguments), cwd=trace.parent
    )
    assert reported.returncode == code
    assert said in reported.stderr
    lines = reported.stderr.splitlines()
    assert [line.split(b":")[0] for line in lines] == [b"error", b"hint"]
    assert not Path("/dev/full").is_file()
    assert [path.name for path in trace.parent.iterdir()] == [trace.name]


def test_a_full_disk_behind_stdout_is_an_error(trace: Path) -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        reported = command("chrome", trace, "-o", "-", stdout=full, stderr=subprocess.PIPE)
    assert reported.returncode == 1
    assert reported.stderr.startswith(b"error: cannot write the output: No space left")


def test_a_reader_that_leaves_early_is_no_error(trace: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        reported = command("chrome", trace, "-o", "-", stdout=pipe, stderr=subprocess.PIPE)
    assert (reported.returncode, reported.stderr) == (0, b"")


@pytest.mark.parametrize("failure", [KeyboardInterrupt, TracerError("no"), OSError(28, "full")])
def test_what_is_interrupted_leaves_nothing(tmp_path: Path, failure: BaseException) -> None:
    output = tmp_path / "out.json.gz"

    def pieces() -> Iterator[bytes]:
        yield b"half"
        assert [path.name for path in tmp_path.iterdir()] == ["out.json.gz.partial"]
        raise failure

    with pytest.raises((KeyboardInterrupt, TracerError)):
        timeline_file.write_timeline(output, pieces(), force=False)
    assert list(tmp_path.iterdir()) == []


def test_a_term_signal_leaves_nothing(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"half"
        signal.raise_signal(signal.SIGTERM)
        yield b"never"

    with pytest.raises(KeyboardInterrupt):
        timeline_file.write_timeline(tmp_path / "out", pieces(), force=False)
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_file_that_came_meanwhile_is_kept(tmp_path: Path) -> None:
    output = tmp_path / "out"

    def pieces() -> Iterator[bytes]:
        yield b"ours"
        output.write_text("theirs")

    with pytest.raises(OutputExistsError):
        timeline_file.write_timeline(output, pieces(), force=False)
    assert output.read_text() == "theirs"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
