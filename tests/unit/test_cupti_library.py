"""Which libcupti the shim takes, and what it does without some of its functions."""

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

from cuda_fakes import RELEASES, driver, toolkit
from cupti_programs import KINDS, record, run_python, status
from cupti_ring import KERNEL, LIBRARY_FAILED, LIBRARY_LACKS, NO_LIBRARY, ON, REFUSED
from rlscope_trace.record import shims

# Without any of these nothing can be recorded.
NEEDED = (
    "cuptiSubscribe", "cuptiActivityRegisterCallbacks", "cuptiActivityEnable",
    "cuptiActivityFlushAll", "cuptiActivityGetNextRecord",
)  # fmt: skip
OPTIONAL = (
    "cuptiGetVersion", "cuptiGetTimestamp", "cuptiUnsubscribe",
    "cuptiActivityRegisterTimestampCallback", "cuptiSetThreadIdType", "cuptiActivityDisable",
    "cuptiActivityEnableRuntimeApi", "cuptiActivityEnableDriverApi", "cuptiGetCallbackName",
    "cuptiActivityGetNumDroppedRecords", "cuptiGetContextId", "cuptiGetStreamIdEx",
    "cuptiGetDeviceId",
)  # fmt: skip


def library(release: str) -> str:
    return str(toolkit(release) / RELEASES[release].cupti)


def runtime(release: str) -> str:
    return str(toolkit(release) / RELEASES[release].cudart)


def copied(paths: dict[str, str], folder: Path) -> list[str]:
    """Copy files to the given places of a folder; return where they are."""
    for place, source in paths.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, folder / place)
    return [str(folder / place) for place in paths]


def test_a_loaded_libcupti_of_another_cuda_is_a_trap() -> None:
    reported = status("13.0", LD_PRELOAD=f"{library('12.9')}:{runtime('13.0')}")
    assert (reported.library, reported.api) == (library("13.0"), 130001)


def test_of_two_loaded_ones_that_of_the_runtime_is_taken() -> None:
    both = f"{library('13.0')}:{library('12.9')}:{runtime('12.9')}"
    assert status("13.0", LD_PRELOAD=both).library == library("12.9")


def test_a_loaded_one_is_known_by_its_soname_too(tmp_path: Path) -> None:
    paths = {"libcupti.so.2025.3.1": library("13.0"), "other/libcupti.so.12": library("12.9")}
    new, old = copied(paths, tmp_path)
    reported = status(None, LD_PRELOAD=f"{old}:{new}:{runtime('13.0')}")
    assert reported.library == new


def test_a_loaded_one_is_better_than_none() -> None:
    assert status(None, LD_PRELOAD=library("12.9")).library == library("12.9")


@pytest.mark.parametrize(
    ("release", "cudart", "cupti"),
    [
        ("11.8", "cuda_runtime/lib", "cuda_cupti/lib"),
        ("12.9", "cuda_runtime/lib", "cuda_cupti/lib"),
        ("13.0", "cu13/lib", "cu13/lib"),
        ("12.9", "cuda/lib64", "cuda/extras/CUPTI/lib64"),
    ],
)
def test_it_is_found_beside_the_runtime(
    release: str, cudart: str, cupti: str, tmp_path: Path
) -> None:
    made = RELEASES[release]
    paths = {f"{cudart}/{made.cudart}": runtime(release), f"{cupti}/{made.cupti}": library(release)}
    loaded, wanted = copied(paths, tmp_path)
    reported = status(None, LD_PRELOAD=loaded)
    assert os.path.realpath(reported.library) == wanted
    assert (reported.state, reported.api) == (ON, made.api)


def test_without_a_runtime_the_driver_decides(tmp_path: Path) -> None:
    copied({"libcupti.so.12": library("12.9"), "libcupti.so.13": library("13.0")}, tmp_path)
    path = f"{driver()}:{tmp_path}"
    assert status(LD_LIBRARY_PATH=path, FAKECUDA_DRIVER="13000").api == 130001
    assert status(LD_LIBRARY_PATH=path, FAKECUDA_DRIVER="12090").api == 28


def test_a_wanted_one_is_taken_whatever_is_loaded(tmp_path: Path) -> None:
    reported = status(LD_PRELOAD=library("13.0"), RLSCOPE_CUPTI_LIBRARY=library("12.9"))
    assert (reported.library, reported.api) == (library("12.9"), 28)
    reported = status(RLSCOPE_CUPTI_LIBRARY=str(tmp_path / "none.so"))
    assert (reported.state, reported.library, reported.why) == (REFUSED, "", LIBRARY_FAILED)
    assert reported.subject.startswith(f"{tmp_path}/none.so: cannot open")


def test_none_at_all_is_told_with_what_to_install(tmp_path: Path) -> None:
    # A version that no machine has: the name of the library is all that the shim goes by.
    (loaded,) = copied({"libcudart.so.98": runtime("13.0")}, tmp_path)
    reported = status(None, LD_PRELOAD=loaded, FAKECUDA_DRIVER="98000")
    assert (reported.state, reported.code, reported.library) == (REFUSED, 0, "")
    assert (reported.why, reported.subject) == (NO_LIBRARY, "libcupti.so.98")


def library_without(name: str, folder: Path) -> str:
    """Write a libcupti in which one function has another name; return its path."""
    built = Path(library("13.0")).read_bytes()
    without = built.replace(f"\0{name}\0".encode(), f"\0x{name[1:]}\0".encode())
    assert without != built
    (folder / "libcupti.so.13").write_bytes(without)
    return str(folder / "libcupti.so.13")


@pytest.mark.parametrize("name", [*NEEDED, *OPTIONAL])
def test_a_function_that_is_missing_is_a_feature_that_is_missing(name: str, tmp_path: Path) -> None:
    records, _ = record("--launches=30", RLSCOPE_CUPTI_LIBRARY=library_without(name, tmp_path))
    reported = records.status()
    if name in NEEDED:
        assert (reported.why, reported.subject) == (LIBRARY_LACKS, name)
        assert (reported.state, reported.library) == (REFUSED, f"{tmp_path}/libcupti.so.13")
        return
    assert (reported.state, reported.recorded) == (ON, KINDS)
    assert len(records.activities(KERNEL)) == 30
    assert reported.has_clock == (name != "cuptiActivityRegisterTimestampCallback")
    names = Counter(call.name for call in records.calls())
    if name == "cuptiGetCallbackName":
        assert set(names) == {""}
    else:
        assert names["cuLaunchKernel"] == 30
    assert (0 in {call.tid for call in records.calls()}) == (name == "cuptiSetThreadIdType")


INIT = """
import ctypes
dlerror = ctypes.CDLL(None).dlerror
dlerror.restype = ctypes.c_char_p
init = ctypes.CDLL("libcuda.so.1").cuInit
dlerror()
print(init(0), dlerror())
"""


def test_the_program_finds_no_error_of_ours(tmp_path: Path) -> None:
    records, output = run_python(
        INIT, CUDA_INJECTION64_PATH=str(shims.LIBRARY),
        RLSCOPE_CUPTI_LIBRARY=library_without("cuptiSubscribe", tmp_path),
    )  # fmt: skip
    assert output == "0 None\n"
    assert records.status().state == REFUSED
