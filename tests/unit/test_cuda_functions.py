"""Which functions of a file are probed for calls of the CUDA API, and in which processes."""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Workload
from probed_cuda import DRIVER, build_libraries, build_linked_in, stripped
from rlscope_trace._capture import FunctionFile
from rlscope_trace.record.probes.cuda_calls import expects_cupti
from rlscope_trace.record.probes.cuda_functions import functions_of, kind_of, library_of

LIBRARIES = {
    "/usr/lib/x86_64-linux-gnu/libcuda.so.1": "cuda",
    "/usr/lib/libcuda.so.580.65.06": "cuda",
    "/opt/cuda/lib64/libcudart.so.11.0": "cudart",
    "/v/site-packages/torch/lib/libcudart-d0da41ae.so.11.0": "cudart",
    "/v/nvidia/cu13/lib/libcudart.so.13 (deleted)": "cudart",
    "libcuda.so": "cuda",
    "/v/libcudadebugger.so.1": None,
    "/v/libcudart_static.a": None,
    "/v/libcudnn.so.9": None,
    "/v/mylibcuda.so.1": None,
    "/v/libcudart.so.13/data": None,
}
KINDS = {
    "cudaLaunchKernel": "launch",
    "cudaLaunchKernelExC_ptsz": "launch",
    "cuLaunchKernel_ptsz": "launch",
    "cuLaunchKernelEx": "launch",
    "cuLaunchCooperativeKernelMultiDevice": "launch",
    "cudaGraphLaunch": "graph",
    "cuGraphLaunch_ptsz": "graph",
    "cuMemcpyHtoDAsync_v2_ptsz": "memcpy",
    "cudaMemcpy_ptds": "memcpy",
    "cuMemsetD32Async": "memset",
    "cudaDeviceSynchronize": "sync",
    "cuStreamSynchronize_ptsz": "sync",
    "cuCtxSynchronize": "sync",
    "cuMemAllocAsync": "memory",
    "cuMemFree_v2": "memory",
    "cudaHostAlloc": "memory",
    "cudaMallocAsync_ptsz": "memory",
    # These are short, or do nothing on a GPU.
    "cudaGetDevice": None,
    "cudaStreamWaitEvent": None,
    "cudaEventRecord": None,
    "cudaLaunchHostFunc": None,
    "cudaGraphAddMemcpyNode": None,
    "cuGetProcAddress_v2": None,
    # The same function once more, which jumps to the plain one.
    "__cudaLaunchKernel": None,
}


@pytest.mark.parametrize("path", LIBRARIES)
def test_libraries_are_known_by_their_names(path: str) -> None:
    assert library_of(path) == LIBRARIES[path]


@pytest.mark.parametrize("name", KINDS)
def test_functions_are_chosen_by_their_names(name: str) -> None:
    assert kind_of(name) == KINDS[name]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("cuda")
    made = build_libraries(folder)
    linked_in = build_linked_in(folder, made["driver"])
    return {**made, "linked_in": linked_in, "stripped": stripped(linked_in)}


def names_in(path: Path) -> set[str]:
    return {point[2] for point in functions_of(FunctionFile(str(path)), str(path)).points}


def test_the_exported_functions_of_a_library_are_found(built: dict[str, Path]) -> None:
    assert names_in(built["driver"]) == set(DRIVER.values())
    for name in ("first", "second", "third"):
        assert names_in(built[name]) == set(DRIVER)


def test_points_are_function_starts_in_the_order_in_which_they_matter(
    built: dict[str, Path],
) -> None:
    found = functions_of(FunctionFile(str(built["first"])), str(built["first"]))
    assert [point[3] for point in found.points] == [
        "launch", "launch", "graph", "sync", "memcpy", "memset", "memory", "memory",
    ]  # fmt: skip
    assert found.points[0][2] == "cudaLaunchKernel"
    for path, at, _, _, start, is_expensive in found.points:
        assert path == str(built["first"])
        # They begin with a push: compiled with frame pointers.
        assert not is_expensive
        assert at >= start
        assert Path(path).read_bytes()[at] in range(0x50, 0x58)
    assert found.rejected == {}
    assert not found.is_blind


def test_a_runtime_that_is_linked_in_is_found_by_its_names(built: dict[str, Path]) -> None:
    assert names_in(built["linked_in"]) == set(DRIVER)
    found = functions_of(FunctionFile(str(built["linked_in"])), str(built["linked_in"]))
    assert not found.is_blind


def test_a_runtime_without_names_is_noticed_by_the_code_beside_it(built: dict[str, Path]) -> None:
    found = functions_of(FunctionFile(str(built["stripped"])), str(built["stripped"]))
    assert found.points == []
    assert found.is_blind


class Fake:
    """A file as cuda_functions asks it."""

    def __init__(
        self, names: dict[str, tuple[int, int, bool] | str], imports: str = "", section: str = ""
    ) -> None:
        self._names = names
        self._imports = imports
        self._section = section

    def names(self, prefix: str) -> list[str]:
        return [name for name in self._names if name.startswith(prefix)]

    def sites(self, names: list[str]) -> dict[str, tuple[int, int, bool] | str]:
        return {name: self._names[name] for name in names}

    def imports(self, prefix: str) -> bool:
        return self._imports.startswith(prefix)

    def has_section(self, name: str) -> bool:
        return self._section == name


def test_several_names_of_a_function_are_one_probe() -> None:
    file = Fake({"cuMemAlloc_v2": (20, 16, False), "cuMemAlloc": (20, 16, False)})
    assert [point[2] for point in functions_of(file, "libcuda.so.1").points] == ["cuMemAlloc"]


def test_what_cannot_be_probed_is_said_with_the_reason() -> None:
    file = Fake({"cuLaunchKernel": "in a loop", "cuMemAlloc": (20, 16, True)})
    found = functions_of(file, "libcuda.so.1")
    assert found.rejected == {"cuLaunchKernel": "in a loop"}
    assert found.points == [("libcuda.so.1", 20, "cuMemAlloc", "memory", 16, True)]


def test_a_file_that_uses_the_library_has_no_runtime_of_its_own() -> None:
    wrapper = {"cudaMallocCounted": (1, 1, False), "cudaMalloc": (2, 2, False)}
    assert functions_of(Fake(wrapper, imports="cudaMalloc"), "libtorch.so").points == []
    assert not functions_of(Fake({}, "cudaMalloc", ".nv_fatbin"), "libtorch.so").is_blind
    # Functions of somebody else's whose names begin the same.
    assert functions_of(Fake({"cudaMallocCounted": (1, 1, False)}), "libmine.so").points == []
    assert not functions_of(Fake({}), "libmine.so").is_blind


@pytest.mark.parametrize("damage", ["empty", "cut", "text"])
def test_a_damaged_file_has_no_functions(
    built: dict[str, Path], tmp_path: Path, damage: str
) -> None:
    whole = built["driver"].read_bytes()
    file = tmp_path / "libcuda.so.1"
    file.write_bytes(
        {"empty": b"", "cut": whole[: len(whole) // 3], "text": b"#!/bin/sh\n"}[damage]
    )
    assert functions_of(FunctionFile(str(file)), str(file)).points == []


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no regular file"):
        FunctionFile(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        FunctionFile(str(tmp_path / "absent"))


SHIM = "CUDA_INJECTION64_PATH=/opt/librlscope_shim.so"
ENVIRONMENTS = {
    "launched by a recorder": ([SHIM, "RLSCOPE_SESSION=a", "RLSCOPE_CUPTI=on"], True),
    "nothing said of CUPTI": ([SHIM, "RLSCOPE_SESSION=a"], True),
    "CUPTI left to another": ([SHIM, "RLSCOPE_SESSION=a", "RLSCOPE_CUPTI=yield"], False),
    "another tool": (["CUDA_INJECTION64_PATH=/opt/tool.so", "RLSCOPE_SESSION=a"], False),
    "no recorder": ([SHIM], False),
    "nothing": ([], False),
}


@pytest.fixture
def sleeping() -> Iterator[list[Workload]]:
    started: list[Workload] = []
    yield started
    for made in started:
        made.close()


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_whom_cupti_is_to_tell_of(name: str, sleeping: list[Workload]) -> None:
    variables, expected = ENVIRONMENTS[name]
    made = Workload(["env", "-i", *variables, "/bin/sh", "-c", "echo ready; read line"])
    sleeping.append(made)
    assert made.readline() == "ready"
    assert expects_cupti(made.pid) is expected


def test_a_process_that_is_gone_is_expected_to_tell_nothing() -> None:
    assert not expects_cupti(2**22)


def test_a_file_has_one_table_of_a_type(tmp_path: Path) -> None:
    tables = 3
    strings = b"\0cuFirst\0cuSecond\0cuThird\0"
    begin = 64 + 56 + 64 * (tables + 1)
    sections = [struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, begin, len(strings), 0, 0, 1, 0)]
    symbols = b""
    for table, at in enumerate((1, 9, 18)):
        place = begin + len(strings) + 24 * table
        sections.append(struct.pack("<IIQQQQIIQQ", 0, 11, 0, 0, place, 24, 0, 0, 8, 24))
        symbols += struct.pack("<IBBHQQ", at, 0x12, 0, 1, 0, 8)
    head = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 64, 120, 0, 64, 56, 1, 64,
        tables + 1, 0,
    )  # fmt: skip
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 4096, 4096, 4096)
    file = tmp_path / "libcuda.so.1"
    file.write_bytes(head + load + b"".join(sections) + strings + symbols)
    assert FunctionFile(str(file)).names("cu") == ["cuFirst"]
