"""What a launched program is given so that it reports its operations."""

from __future__ import annotations

import os
import re
import shutil
import struct
import sys
import tracemalloc
from pathlib import Path

import pytest

from rlscope_analysis.schema.facts.fact import Fact
from rlscope_trace.errors import UsageError
from rlscope_trace.privileges import Identity, may_read
from rlscope_trace.record import shims

GPU = {"RLSCOPE_CUPTI": "on", "RLSCOPE_CUDA_GRAPHS": "graph"}


def injected(
    environment: dict[str, str],
    *,
    identity: Identity | None = None,
    program: Path | None = None,
    **changed: object,
) -> shims.Injection:
    request = shims.Request("rlscope-1", **changed)  # type: ignore[arg-type]
    return shims.inject(environment, request, program=program, identity=identity)


def test_the_environment_names_the_shim_and_keeps_the_rest() -> None:
    made = injected({"HOME": "/h", "PYTHONPATH": "/mine"}, modules="cublas")
    assert made.operations.measured
    assert made.gpu == shims.Verdict(True, Fact("cupti"))
    assert made.environment == {
        "HOME": "/h",
        "PYTHONPATH": f"{shims.PYTHON_FOLDER}{os.pathsep}/mine",
        "NVTX_INJECTION64_PATH": str(shims.LIBRARY),
        "CUDA_INJECTION64_PATH": str(shims.LIBRARY),
        "RLSCOPE_SESSION": "rlscope-1",
        "RLSCOPE_NVTX": "cublas",
        "RLSCOPE_AUTO": "1",
        **GPU,
    }


def test_an_empty_part_of_pythonpath_would_be_the_current_directory() -> None:
    assert injected({}).environment["PYTHONPATH"] == str(shims.PYTHON_FOLDER)
    assert injected({"PYTHONPATH": ""}).environment["PYTHONPATH"] == str(shims.PYTHON_FOLDER)


def test_without_phases_python_is_left_alone() -> None:
    made = injected({"PYTHONPATH": "/mine"}, auto=False)
    assert made.environment["PYTHONPATH"] == "/mine"
    assert "RLSCOPE_AUTO" not in made.environment
    assert "NVTX_INJECTION64_PATH" in made.environment


def test_tools_of_the_user_stay() -> None:
    nvtx = {"NVTX_INJECTION64_PATH": "/opt/tool.so"}
    made = injected(nvtx)
    assert not made.operations.measured
    assert made.operations.fact == Fact("other_nvtx_tool", "NVTX_INJECTION64_PATH", "/opt/tool.so")
    assert made.gpu.measured
    library = {"CUDA_INJECTION64_PATH": str(shims.LIBRARY), "RLSCOPE_SESSION": "rlscope-1"}
    assert made.environment == {**nvtx, **library, **GPU}
    cuda = {"CUDA_INJECTION64_PATH": "/opt/tool.so"}
    made = injected(cuda)
    assert made.operations.measured
    assert not made.gpu.measured
    assert made.gpu.fact == Fact("other_cuda_tool", "CUDA_INJECTION64_PATH", "/opt/tool.so")
    assert made.environment["CUDA_INJECTION64_PATH"] == "/opt/tool.so"
    made = injected({**nvtx, **cuda})
    assert not made.operations.measured
    assert made.environment == {**nvtx, **cuda}


@pytest.mark.parametrize("mode", ["yield", "off"])
def test_gpu_activity_that_nobody_wants_is_not_asked_for(mode: str) -> None:
    made = injected({}, gpu=shims.GpuSettings(mode, "node", has_memory=True))
    assert made.operations.measured
    assert not made.gpu.measured
    yielded, off = Fact("cupti_yielded"), Fact("not_asked_for", "--cupti off")
    assert made.gpu.fact == (yielded if mode == "yield" else off)
    assert "CUDA_INJECTION64_PATH" not in made.environment
    reported = {name: made.environment[name] for name in made.environment if "_CU" in name}
    assert reported == {
        "RLSCOPE_CUPTI": mode, "RLSCOPE_CUDA_GRAPHS": "node", "RLSCOPE_CUDA_MEMORY": "1",
    }  # fmt: skip
    assert injected({"A": "b"}, modules="off", gpu=shims.GpuSettings(mode)).environment == {
        "A": "b"
    }


def test_the_gpu_is_recorded_without_operations() -> None:
    made = injected({}, modules=shims.NVTX_OFF)
    assert made.operations == shims.Verdict(False, Fact("not_asked_for", "--nvtx off"))
    assert made.environment == {
        "CUDA_INJECTION64_PATH": str(shims.LIBRARY), "RLSCOPE_SESSION": "rlscope-1", **GPU,
    }  # fmt: skip


def test_a_process_that_runs_is_told_whether_to_start_cupti() -> None:
    late = shims.late_environment("rlscope-1", "cublas", shims.GpuSettings())
    library = {"CUDA_INJECTION64_PATH": str(shims.LIBRARY)}
    assert late == {"RLSCOPE_SESSION": "rlscope-1", "RLSCOPE_NVTX": "cublas", **GPU, **library}
    yielding = shims.late_environment("rlscope-1", "", shims.GpuSettings(cupti="yield"))
    for other in (yielding, shims.late_environment("rlscope-1", "")):
        assert "CUDA_INJECTION64_PATH" not in other
        assert other["RLSCOPE_CUPTI"] in ("yield", "off")


def test_a_missing_shim_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shims, "LIBRARY", tmp_path / "librlscope_shim.so")
    made = injected({})
    assert not made.operations.measured
    assert not made.gpu.measured
    assert made.operations.fact.code == "shim_missing"
    assert made.gpu.fact == made.operations.fact


def test_a_user_who_may_not_read_the_shim(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library = tmp_path / "closed" / "librlscope_shim.so"
    library.parent.mkdir()
    shutil.copy(shims.LIBRARY, library)
    library.parent.chmod(0o700)
    monkeypatch.setattr(shims, "LIBRARY", library)
    made = injected({}, identity=Identity(uid=os.getuid() + 1, gid=9, groups=(9,), name=None))
    assert not made.operations.measured
    assert made.operations.fact.code == "shim_unreadable"


def test_may_read_goes_by_owner_group_and_others(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    me, group = file.stat().st_uid, file.stat().st_gid
    other, parts = me + 1, len(tmp_path.parts) + 1
    for mode, uid, groups, expected in [
        (0o400, other, (), False),
        (0o004, other, (), True),
        (0o040, other, (group,), True),
        (0o004, other, (group,), False),
    ]:
        file.chmod(mode)
        # The folders above belong to the system: only the file is judged.
        assert may_read(file, uid, groups, below=parts) is expected
    assert may_read(file, 0, ())


@pytest.mark.parametrize(
    ("offset", "size", "count"), [(64, 65535, 65535), (2**64 - 1, 56, 3), (2**63, 56, 3)]
)
def test_a_program_that_says_it_is_endless_is_not_read(
    tmp_path: Path, offset: int, size: int, count: int
) -> None:
    """The file has holes: nothing in it, and of any length."""
    head = bytearray(b"\x7fELF\x02".ljust(64, b"\0"))
    struct.pack_into("<Q", head, 32, offset)
    struct.pack_into("<HH", head, 54, size, count)
    program = tmp_path / "program"
    program.write_bytes(head)
    os.truncate(program, 1 << 33)
    tracemalloc.start()
    try:
        assert not shims.is_static(program)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_pipe_in_the_place_of_a_program_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "program")
    assert not shims.is_static(tmp_path / "program")


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"", False), (b"#!/bin/sh\n", False), (b"\x7fELF\x02" + bytes(10), False)],
)
def test_what_is_no_program_is_not_static(tmp_path: Path, content: bytes, expected: bool) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    assert shims.is_static(file) is expected


def test_python_is_dynamic_and_the_loader_is_not() -> None:
    assert not shims.is_static(Path(sys.executable).resolve())
    (loader,) = Path("/lib64").glob("ld-linux-*.so.2")
    assert shims.is_static(loader)


def test_sessions_are_told_apart() -> None:
    assert len({shims.new_session() for _ in range(100)}) == 100


def test_modules_are_all_or_known_ones() -> None:
    assert shims.parse_modules("all") == "all"
    assert shims.parse_modules(" cublas , cudnn") == "cublas,cudnn"
    assert shims.parse_modules("") == ""
    with pytest.raises(UsageError, match="'cublass', 'all': not known") as caught:
        shims.parse_modules("cublass,cudnn,all")
    assert caught.value.hint is not None
    assert "cusparse" in caught.value.hint


def test_the_modules_are_those_of_the_filter() -> None:
    source = (Path(__file__).parents[2] / "cupti" / "filter.c").read_text()
    table = source.split("kOnRequest[] = {")[1].split("}")[0]
    assert sorted(re.findall(r'"(\w+)"', table)) == sorted(shims.MODULES)
