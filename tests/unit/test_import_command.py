"""`rlscope-trace import`: the command line, its last words, and names of CUDA calls."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

import duckdb
import pytest
from typer.testing import CliRunner

from kineto_builder import call, kernel, op, slice_, write_kineto, write_text
from rlscope_analysis.schema.vocabulary import CUDA_CALL_KINDS
from rlscope_trace import cli
from rlscope_trace.cli.import_ import app
from rlscope_trace.cuda_names import cuda_call_kind

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_the_last_words(tmp_path: Path) -> None:
    events = [op("a", 0, 9), call("cudaLaunchKernel", 1, 2, 1), kernel("k", 3, 4, 1)]
    path = write_kineto(tmp_path / "a.json", events)
    output = tmp_path / "t.duckdb"
    result = CliRunner().invoke(app, ["kineto", str(path), "-o", str(output)])
    assert result.exit_code == 0
    words = result.stderr.splitlines()
    assert words[0].startswith(
        f"wrote {output}: 3 events, 1 processes, 1 threads, 1 GPU activities, "
    )
    assert words[1:] == ["nothing lost"]


def test_losses_are_told(tmp_path: Path) -> None:
    path = write_kineto(tmp_path / "a.json", [op("a", 0, 9), slice_("overhead", "x", 0, 1)])
    result = CliRunner().invoke(app, ["kineto", str(path), "-o", str(tmp_path / "t.duckdb")])
    assert result.stderr.splitlines()[1:] == ["warning: 1 skipped: Kineto events: overhead"]


def test_the_whole_command_line_puts_errors_into_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_text(tmp_path / "a.json", "{")
    with pytest.raises(SystemExit) as caught:
        cli.main(["import", "kineto", str(path), "-o", str(tmp_path / "t.duckdb")])
    assert caught.value.code == 1
    assert capsys.readouterr().err.splitlines() == [
        f"error: {path} is damaged: it is cut off, at byte 1 of the file",
        "hint: --salvage imports the 0 events before that",
    ]


def interrupt(*_arguments: object, **_keywords: object) -> None:
    raise KeyboardInterrupt


def swallowed_interrupt(*_arguments: object, **_keywords: object) -> None:
    """Fail as DuckDB does where Ctrl-C meets its search for the name of a variable."""
    with suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    raise duckdb.BinderException("there is no table batch")


@pytest.mark.parametrize("interrupt", [interrupt, swallowed_interrupt])
def test_an_interrupt_is_told(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    interrupt: Callable[..., None],
) -> None:
    monkeypatch.setattr("rlscope_trace.ingest.importers.kineto.read_file", interrupt)
    path = write_kineto(tmp_path / "a.json", [op("a", 0, 9)])
    output = tmp_path / "t.duckdb"
    with pytest.raises(SystemExit) as caught:
        cli.main(["import", "kineto", str(path), "-o", str(output)])
    assert caught.value.code == 130
    assert capsys.readouterr().err == f"error: interrupted: {output} was not written\n"
    assert list(tmp_path.iterdir()) == [path]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_name_that_is_no_text_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = os.fsdecode(bytes(tmp_path) + b"/\xff.json")
    with pytest.raises(SystemExit) as caught:
        cli.main(["import", "kineto", name])
    assert caught.value.code == 2
    assert "is not UTF-8" in capsys.readouterr().err


@pytest.mark.parametrize("format_name", ["kineto", "nsys"])
def test_a_link_to_itself_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], format_name: str
) -> None:
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    with pytest.raises(SystemExit) as caught:
        cli.main(["import", format_name, str(loop), "-o", str(tmp_path / "t.duckdb")])
    assert caught.value.code == 1
    assert f"error: cannot read {loop}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (
            "launch",
            "cudaLaunchKernel cudaLaunchKernel_v7000 cudaLaunchKernelExC_v11060 cuLaunchKernelEx"
            " cudaLaunchCooperativeKernelMultiDevice hipLaunchKernel hipModuleLaunchKernel"
            " hipExtModuleLaunchKernel hipHccModuleLaunchKernel hipLaunchByPtr cuLaunchKernel_ptsz",
        ),
        ("graph", "cudaGraphLaunch cudaGraphLaunch_v10000 cuGraphLaunch hipGraphLaunch"),
        ("memcpy", "cudaMemcpyAsync cudaMemcpy cuMemcpyHtoDAsync_v2 hipMemcpyWithStream"),
        ("memset", "cudaMemsetAsync cuMemsetD8Async hipMemset"),
        (
            "sync",
            "cudaDeviceSynchronize cudaStreamSynchronize_v3020 cudaEventSynchronize"
            " cuCtxSynchronize hipStreamSynchronize cuStreamSynchronize_ptsz",
        ),
        (
            "memory",
            "cudaMalloc cudaMallocAsync_v11020 cudaFree cudaFreeHost cudaHostAlloc hipHostMalloc"
            " hipExtMallocWithFlags cuMemAlloc_v2 cuMemCreate cuMemUnmap",
        ),
        (
            "other",
            "cudaStreamWaitEvent cudaEventRecord cudaGraphInstantiate cudaMemGetInfo cudaGetDevice"
            " cudaLaunchHostFunc cudaStreamIsCapturing aten::cudaMalloc cuda malloc",
        ),
    ],
)  # fmt: skip
def test_kinds_of_calls(kind: str, names: str) -> None:
    found = {name: CUDA_CALL_KINDS[cuda_call_kind(name)] for name in names.split()}
    assert found == dict.fromkeys(names.split(), kind)
