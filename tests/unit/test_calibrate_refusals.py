"""What a process of the calibration could not do becomes a code of table calibration."""

from pathlib import Path

import pytest

from phases_harness import build
from rlscope_analysis.sentences import quality_sentence
from rlscope_trace.record.calibrate.children import CalibrationError, Child, measured_cpu
from rlscope_trace.record.calibrate.measure import _Running


@pytest.mark.parametrize(
    ("driver", "code", "said"),
    [
        (
            "int cuInit(unsigned flags) { return (int)flags + 100; }",
            "no_working_gpu", "no GPU that works: cuInit -> 100",
        ),
        ("int other;", "cuda_function_missing", "libcuda.so.1 has no cuInit"),
        (
            "int cuInit(unsigned flags) { return (int)flags; }\n"
            "int cuDeviceGet(int* device, int number) { return device ? 101 : number; }",
            "cuda_call_failed", "cuDeviceGet -> 101",
        ),
        (None, "no_nvidia_driver", "no NVIDIA driver: libcuda.so.1 was not found"),
    ],
)  # fmt: skip
def test_a_driver_that_does_not_work(
    tmp_path: Path, driver: str | None, code: str, said: str
) -> None:
    library = tmp_path / "libcuda.so.1"
    if driver is None:
        # Found before any other, and none.
        library.write_bytes(b"")
    else:
        source = tmp_path / "driver.c"
        source.write_text(driver)
        build(library, source)
    child = Child(measured_cpu(), environment={"LD_LIBRARY_PATH": str(tmp_path)})
    running = _Running(("cupti_api",))
    try:
        with pytest.raises(CalibrationError) as caught:
            child.ask("cuda_open")
    finally:
        child.close()
    running.fail(caught.value)
    (why,) = running.reasons
    assert why.code == code
    assert quality_sentence(*why.columns) == f"not measured: {said}"


def test_other_errors_are_said_as_they_are() -> None:
    child = Child(measured_cpu())
    running = _Running(("call",))
    try:
        with pytest.raises(CalibrationError) as caught:
            child.ask("no_such_thing")
    finally:
        child.close()
    running.fail(caught.value)
    assert (running.reasons[0].code, "no_such_thing" in str(running.reasons[0].detail)) == (
        "failed",
        True,
    )
