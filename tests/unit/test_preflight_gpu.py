"""The doctor's checks of what a GPU needs: a machine without one is as it should be."""

from pathlib import Path

import pytest

from rlscope_trace.record.preflight import Finding, gpu


def refuse(_library: str) -> None:
    raise OSError


def test_a_machine_without_a_gpu_lacks_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(gpu, "DEVICES", tmp_path)
    monkeypatch.setattr(gpu, "_cupti_folders", list)
    findings = gpu.check_gpu({}, load=refuse)
    assert [finding.name for finding in findings] == ["gpu_driver", "cupti", "nvml", "gpu_shim"]
    assert {finding.level for finding in findings[:3]} == {"ok"}


def device_folder(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).touch()
    return folder


def test_driver_and_devices_belong_together(tmp_path: Path) -> None:
    folder = device_folder(tmp_path, "nvidiactl", "nvidia-uvm")
    assert gpu.check_driver(folder, has_driver=False).level == "ok"
    lacking = gpu.check_driver(folder, has_driver=True)
    assert (lacking.level, lacking.what) == (
        "note", f"libcuda.so.1 can be loaded, but {folder} has no nvidia0",
    )  # fmt: skip
    device_folder(tmp_path, "nvidia0", "nvidia1")
    assert gpu.check_driver(folder, has_driver=True) == Finding(
        "gpu_driver", "ok", f"libcuda.so.1 can be loaded; nvidia0, nvidia1 in {folder}"
    )
    closed = gpu.check_driver(folder, has_driver=False)
    assert (closed.level, closed.remedy) == ("note", "in a container: docker run --gpus all ...")


def test_libcupti_is_found_or_named(tmp_path: Path) -> None:
    none = gpu.check_cupti({}, has_driver=True, folders=[tmp_path])
    assert none.level == "note"
    assert none.remedy == "pip install nvidia-cuda-cupti, in the program's Python"
    assert gpu.check_cupti({}, has_driver=False, folders=[tmp_path]).level == "ok"
    library = tmp_path / "libcupti.so.13"
    library.touch()
    found = gpu.check_cupti({}, has_driver=True, folders=[tmp_path])
    assert (found.level, found.what) == ("ok", f"found {library}")
    settings = {"RLSCOPE_CUPTI_LIBRARY": str(tmp_path / "libcupti.so.12")}
    wrong = gpu.check_cupti(settings, has_driver=True, folders=[tmp_path])
    assert (wrong.level, wrong.remedy) == ("note", "unset RLSCOPE_CUPTI_LIBRARY")


def test_nvml_needs_its_package_only_where_it_is() -> None:
    assert gpu.check_nvml(has_library=False, has_package=lambda _: None).level == "ok"
    missing = gpu.check_nvml(has_library=True, has_package=lambda _: None)
    assert (missing.level, missing.remedy) == ("note", "pip install nvidia-ml-py")
    assert gpu.check_nvml(has_library=True, has_package=lambda _: 1).level == "ok"


def test_another_tool_is_named() -> None:
    taken = gpu.check_other_tools({"CUDA_INJECTION64_PATH": "/opt/tool/libInjection64.so"})
    assert taken.level == "note"
    assert "/opt/tool/libInjection64.so" in taken.what
    assert taken.remedy == "unset it, or --cupti yield leaves the GPU to that tool"
    ours = gpu.check_other_tools({"CUDA_INJECTION64_PATH": f"/x/{gpu.SHIM_NAME}"})
    assert "that tool" not in ours.what
