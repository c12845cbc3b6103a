"""What a launched program is given so that it tells of its operations."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from rlscope_trace import shims
from rlscope_trace.errors import UsageError
from rlscope_trace.privileges import Identity, may_read


def injected(environment: dict[str, str], **changed: object) -> shims.Injection:
    options: dict[str, object] = {
        "session": "rlscope-1", "auto": True, "modules": "", "program": None, "identity": None,
    }  # fmt: skip
    return shims.inject(environment, **{**options, **changed})  # type: ignore[arg-type]


def test_the_environment_names_the_shim_and_keeps_the_rest() -> None:
    made = injected({"HOME": "/h", "PYTHONPATH": "/mine"}, modules="cublas")
    assert made.measured
    assert made.environment == {
        "HOME": "/h",
        "PYTHONPATH": f"{shims.PYTHON_FOLDER}{os.pathsep}/mine",
        "NVTX_INJECTION64_PATH": str(shims.LIBRARY),
        "CUDA_INJECTION64_PATH": str(shims.LIBRARY),
        "RLSCOPE_SESSION": "rlscope-1",
        "RLSCOPE_NVTX": "cublas",
        "RLSCOPE_AUTO": "1",
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
    assert (made.measured, made.environment) == (False, nvtx)
    assert "/opt/tool.so" in made.reason
    cuda = injected({"CUDA_INJECTION64_PATH": "/opt/tool.so"})
    assert cuda.measured
    assert cuda.environment["CUDA_INJECTION64_PATH"] == "/opt/tool.so"


def test_a_missing_shim_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shims, "LIBRARY", tmp_path / "librlscope_shim.so")
    made = injected({})
    assert not made.measured
    assert "reinstall" in made.reason


def test_a_user_who_may_not_read_the_shim(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library = tmp_path / "closed" / "librlscope_shim.so"
    library.parent.mkdir()
    shutil.copy(shims.LIBRARY, library)
    library.parent.chmod(0o700)
    monkeypatch.setattr(shims, "LIBRARY", library)
    made = injected({}, identity=Identity(uid=os.getuid() + 1, gid=9, groups=(9,), name=None))
    assert not made.measured
    assert "may not read" in made.reason


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
