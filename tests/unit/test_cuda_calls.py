"""Which processes get probes of the CUDA API, when, and what is written down of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from probed_cuda import DRIVER, build_libraries
from rlscope_trace.record.probes import cuda_calls
from rlscope_trace.record.probes.cuda_calls import CudaCalls
from rlscope_trace.record.probes.process import Process

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rlscope_trace.record.probes.calls import Point
    from rlscope_trace.record.probes.modules import Module


class Log:
    """What would be written."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def append(self, event: str, **facts: object) -> None:
        self.lines.append({"event": event, **facts})

    @property
    def reported(self) -> list[tuple[str, list[str]]]:
        """Return what was said of processes."""
        return [(line["state"], line["files"]) for line in self.lines if line["event"] == "cuda"]


class Probes:
    """In place of CallProbes: takes the points that there is room for."""

    is_given_up = False
    is_cancelled = False

    def __init__(self, room: int = 1000) -> None:
        self.probed: dict[str, list[str]] = {}
        self._room = room

    def refuses(self, process: Process) -> bool:
        self.is_given_up = any("greenlet" in mapping[0] for mapping in process.mappings)
        return self.is_given_up

    def probe(self, pid: int, mapping: object, module: Module, points: list[Point]) -> None:
        taken = points[: self._room]
        self._room -= len(taken)
        module.probed += len(taken)
        self.probed[module.path] = [point[2] for point in taken]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return build_libraries(tmp_path_factory.mktemp("cuda"))


@pytest.fixture(autouse=True)
def opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open files by their names: the processes here are nobody's."""

    def open_file(pid: int, mapping: tuple[str, int, int, int, int, int]) -> int:
        return cuda_calls.os.open(mapping[0], cuda_calls.os.O_RDONLY)

    monkeypatch.setattr(cuda_calls, "open_file", open_file)


def process_with(*files: Path | str, pid: int = 10) -> Process:
    process = Process(pid, is_new=True)
    process.mappings = tuple(
        (str(file), 1, hash(str(file)) & 0xFFFF, 4096 * number, 4096 * number + 4096, 0)
        for number, file in enumerate(files, 1)
    )
    return process


def made(
    probes: Probes, log: Log, states: Mapping[int, str] | None = None, mode: str = "auto"
) -> CudaCalls:
    reported = {} if states is None else states
    return CudaCalls(probes, log, mode=mode, gpu_state=reported.get)  # type: ignore[arg-type]


def test_a_process_without_cuda_is_left_alone(built: dict[str, Path]) -> None:
    probes, log = Probes(), Log()
    made(probes, log).look(process_with("/lib/libc.so.6"), 0, changed=True)
    assert (probes.probed, log.lines) == ({}, [])


def test_libraries_are_probed_when_they_are_loaded_and_read_once(built: dict[str, Path]) -> None:
    probes, log = Probes(), Log()
    calls = made(probes, log)
    process = process_with(built["first"])
    calls.look(process, 0, changed=True)
    assert set(probes.probed[str(built["first"])]) == set(DRIVER)
    process.mappings = process_with(built["first"], built["driver"]).mappings
    calls.look(process, 1, changed=True)
    calls.look(process, 2, changed=False)
    assert set(probes.probed) == {str(built["first"]), str(built["driver"])}
    probes.probed.clear()
    calls.look(process_with(built["first"], pid=11), 3, changed=True)
    assert probes.probed == {}
    assert log.reported == [
        ("probed", ["libcudart.so.12"]),
        ("probed", ["libcuda.so.1", "libcudart.so.12"]),
        ("probed", ["libcudart.so.12"]),
    ]


@pytest.mark.parametrize(("state", "probed"), [("on", False), ("off", True), ("refused", True)])
def test_cupti_is_left_its_calls(built: dict[str, Path], state: str, *, probed: bool) -> None:
    probes, log = Probes(), Log()
    made(probes, log, {10: state}).look(process_with(built["driver"]), 0, changed=True)
    assert bool(probes.probed) is probed
    assert [reported[0] for reported in log.reported] == ["probed" if probed else "left"]


def test_it_is_waited_for_what_the_shim_says(
    built: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_calls, "expects_cupti", lambda pid: True)
    probes, log, states = Probes(), Log(), dict[int, str]()
    calls, process = made(probes, log, states), process_with(built["driver"])
    calls.look(process, 0, changed=True)
    assert probes.probed == {}
    states[10] = "refused"
    calls.look(process, 1, changed=False)
    assert list(probes.probed) == [str(built["driver"])]
    assert [reported[0] for reported in log.reported] == ["left", "probed"]


def test_asked_for_it_is_probed_whatever_cupti_does(built: dict[str, Path]) -> None:
    probes, log = Probes(), Log()
    calls = made(probes, log, {10: "on"}, mode="on")
    calls.look(process_with(built["driver"]), 0, changed=True)
    assert list(probes.probed) == [str(built["driver"])]


def test_a_program_that_switches_stacks_is_not_probed(built: dict[str, Path]) -> None:
    probes, log = Probes(), Log()
    calls = made(probes, log)
    calls.look(process_with(built["driver"], "/v/_greenlet.so"), 0, changed=True)
    calls.look(process_with(built["driver"], pid=11), 1, changed=True)
    assert (probes.probed, log.reported) == ({}, [])


def test_the_first_probes_are_those_that_matter(built: dict[str, Path]) -> None:
    probes, log = Probes(room=3), Log()
    process = process_with(built["first"], built["driver"])
    made(probes, log).look(process, 0, changed=True)
    assert probes.probed[str(built["driver"])] == [
        "cuLaunchKernel", "cuLaunchKernel_ptsz", "cuGraphLaunch",
    ]  # fmt: skip
    (line,) = [line for line in log.lines if line["event"] == "cuda"]
    assert line["files"] == ["libcuda.so.1"]
    assert line["reason"] == "libcudart.so.12: the OS kernel takes no probe there"


def test_a_library_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    probes, log = Probes(), Log()
    absent = tmp_path / "libcuda.so.1"
    calls, process = made(probes, log), process_with(absent)
    calls.look(process, 0, changed=True)
    assert probes.probed == {}
    (line,) = log.lines
    assert line["state"] == "failed"
    assert line["reason"] == "libcuda.so.1: No such file or directory"
    text = tmp_path / "libcudart.so.12"
    text.write_text("no code")
    calls.look(process_with(text, pid=11), 1, changed=True)
    assert log.lines[-1]["reason"] == "libcudart.so.12: it has no such functions"
