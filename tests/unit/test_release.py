"""scripts/release: what it does to a wheel that was built, and what it refuses."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from trace_builder import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Mapping

INFO = "rlscope_trace-1.2.dist-info"
BUILT = {
    "rlscope_trace/_capture.so": b"module",
    "rlscope_trace/lib/libbpf.so.1": b"libbpf",
    "rlscope_trace/lib/libZydis.so.4.0": b"zydis",
    "rlscope_trace.libs/libelf-1a2b.so.1": b"libelf",
    f"{INFO}/METADATA": b"Metadata-Version: 2.4\nName: r\nVersion: 1.2\n"
    b"License-Expression: Apache-2.0\n\nwords\n\nmore\n",
    f"{INFO}/sboms/auditwheel.cdx.json": b"the machine it ran on",
    f"{INFO}/RECORD": b"stale",
}


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPOSITORY / "scripts"))
    from release_lib import parts

    # Debian's packages need not be there.
    monkeypatch.setattr(parts, "output_of", lambda *_words: "1.0-1")


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    info = tmp_path / "venv/lib/python3.11/site-packages/pybind11-3.1.0.dist-info/licenses"
    info.mkdir(parents=True)
    (info / "LICENSE").write_bytes(b"licence of pybind11")
    return tmp_path / "venv/bin"


def finished(files: Mapping[str, bytes], folder: Path, tools: Path, year: int = 2026) -> Path:
    from release_lib.machines import Machine
    from release_lib.wheel_file import finish

    (folder / "out").mkdir(parents=True)
    with zipfile.ZipFile(folder / "w.whl", "w") as wheel:
        for name, data in files.items():
            info = zipfile.ZipInfo(name, (year, 1, 2, 3, 4, 6))
            info.external_attr = (0o755 if name.endswith(".so") else 0o600) << 16
            wheel.writestr(info, data)
    (folder / "a.tar.gz").write_bytes(b"sources")
    return finish(
        folder / "w.whl", folder / "out", archive=folder / "a.tar.gz", epoch=1_800_000_000,
        pybind11=tools, machine=Machine("x86_64", debian(folder)),
    )  # fmt: skip


def debian(folder: Path, *without: str) -> Path:
    """Make a root with the licences of its packages."""
    packages = {"libbpf1", "libelf1", "libzydis4.0", "libzycore-dev", "rapidjson-dev"}
    for package in packages.difference(without):
        (folder / "root/usr/share/doc" / package).mkdir(parents=True)
        text = folder / "root/usr/share/doc" / package / "copyright"
        text.write_bytes(f"licence of {package}".encode())
    with (folder / "root/usr/share/doc/libelf1/copyright").open("a") as text:
        text.write(", see `/usr/share/common-licenses/LGPL-3'.")
    common = folder / "root/usr/share/common-licenses"
    common.mkdir()
    for name in ("LGPL-3", "GPL-1"):
        (common / name).write_text(f"text of {name}")
    return folder / "root"


def test_the_same_contents_are_the_same_bytes(tmp_path: Path, tools: Path) -> None:
    one = finished(BUILT, tmp_path / "one", tools)
    two = finished(dict(reversed(BUILT.items())), tmp_path / "two", tools, year=2001)
    assert one.read_bytes() == two.read_bytes()
    changed = finished({**BUILT, "rlscope_trace/a.py": b""}, tmp_path / "three", tools)
    assert changed.read_bytes() != one.read_bytes()


def test_the_record_is_true_of_every_file(tmp_path: Path, tools: Path) -> None:
    with zipfile.ZipFile(finished(BUILT, tmp_path / "one", tools)) as wheel:
        rows = list(csv.reader(wheel.read(f"{INFO}/RECORD").decode().splitlines()))
        assert {row[0] for row in rows} == set(wheel.namelist())
        for name, code, size in rows:
            if name != f"{INFO}/RECORD":
                digest = hashlib.sha256(wheel.read(name)).digest()
                assert code == f"sha256={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"
                assert int(size) == wheel.getinfo(name).file_size
        modes = {name: wheel.getinfo(name).external_attr >> 16 for name in wheel.namelist()}
    assert modes["rlscope_trace/_capture.so"] == 0o100755
    assert modes[f"{INFO}/METADATA"] == 0o100644


def test_licences_and_parts_of_others_travel_along(tmp_path: Path, tools: Path) -> None:
    with zipfile.ZipFile(finished(BUILT, tmp_path / "one", tools)) as wheel:
        names = wheel.namelist()
        head, _, body = wheel.read(f"{INFO}/METADATA").decode().partition("\n\n")
        bill = json.loads(wheel.read(f"{INFO}/sboms/rlscope-trace.cdx.json"))
        expression, *reported = [line.partition(": ")[2] for line in head.splitlines()[3:]]
        texts = {name: wheel.read(f"{INFO}/licenses/{name}") for name in reported}
    assert texts["third_party/libelf.txt"].startswith(b"licence of libelf1")
    assert texts["third_party/LGPL-3.txt"] == b"text of LGPL-3"
    assert "third_party/GPL-1.txt" not in texts
    assert body == "words\n\nmore\n"
    assert expression == (
        "Apache-2.0 AND (LGPL-2.1-only OR BSD-2-Clause)"
        " AND (LGPL-3.0-or-later OR GPL-2.0-or-later) AND MIT AND BSD-3-Clause"
    )
    assert {f"{INFO}/licenses/{name}" for name in reported} <= set(names)
    assert f"{INFO}/sboms/auditwheel.cdx.json" not in names
    parts = {part["name"]: part for part in bill["components"]}
    assert sorted(parts) == [
        "libbpf", "libelf", "pybind11", "rapidjson", "zycore", "zydis"
    ]  # fmt: skip
    (code,) = parts["libelf"]["hashes"]
    assert code["content"] == hashlib.sha256(b"libelf").hexdigest()
    assert bill["metadata"]["component"]["version"] == "1.2"


def test_a_wheel_of_other_sources_is_not_checked(
    tmp_path: Path, tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from release_lib import checking
    from release_lib.running import ReleaseError

    wheel = finished(BUILT, tmp_path / "one", tools)
    dist = wheel.parent
    monkeypatch.setattr(checking, "DIST", dist)
    (dist / "a.tar.gz").write_bytes(b"sources")
    checking.require_one_source()
    (dist / "a.tar.gz").write_bytes(b"other sources")
    with pytest.raises(ReleaseError, match=f"{wheel.name} is of other sources than a.tar.gz"):
        checking.require_one_source()


def test_a_package_is_asked_for_only_where_something_of_it_travels(
    tmp_path: Path, tools: Path
) -> None:
    """Zydis reads x86-64: a root of another machine need not have it."""
    from release_lib import parts

    root = debian(tmp_path, "libzydis4.0")
    names = [name for name in BUILT if "Zydis" not in name]
    assert "zydis" not in {part.name for part in parts.travelling(names, tools, root)}
    with pytest.raises(FileNotFoundError, match="libzydis"):
        parts.travelling(list(BUILT), tools, root)


def test_a_build_for_another_machine_takes_nothing_of_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from release_lib import pythons
    from release_lib.machines import HERE, Machine

    debians = tmp_path / "include/python3.11"
    of_machine = tmp_path / "include/x86_64-linux-gnu/python3.11/pyconfig.h"
    for folder, text in (
        (debians, "#  include <x86_64-linux-gnu/python3.11/pyconfig.h>\n"),
        (of_machine.parent, "#define SIZEOF_LONG 8\n#define HAVE_GCC_ASM_FOR_X87 1\n"),
    ):
        folder.mkdir(parents=True)
        (folder / "pyconfig.h").write_text(text)
    (debians / "Python.h").write_text("")
    monkeypatch.setattr(pythons, "WORK", tmp_path / "work")
    monkeypatch.setattr(pythons, "output_of", lambda *_words: str(debians))
    python = tmp_path / "python3.11"
    assert Machine(HERE).environment("3.11", python) == {}
    there = Machine("aarch64", tmp_path).environment("3.11", python)
    headers = tmp_path / "work/headers/python3.11"
    assert there["RLSCOPE_PYTHON_HEADERS"] == str(headers)
    assert sorted(path.name for path in headers.iterdir()) == ["Python.h", "pyconfig.h"]
    assert (headers / "pyconfig.h").read_text() == (
        "#define SIZEOF_LONG 8\n#define HAVE_GCC_ASM_FOR_X87 1\n"
        "#undef HAVE_GCC_ASM_FOR_X64\n#undef HAVE_GCC_ASM_FOR_X87\n"
    )
    assert there["SETUPTOOLS_EXT_SUFFIX"] == ".cpython-311-aarch64-linux-gnu.so"
    assert (REPOSITORY / "scripts/release_lib/aarch64.cmake").samefile(
        there["CMAKE_TOOLCHAIN_FILE"]
    )
    assert "x86" not in " ".join(there.values())
    assert Machine("aarch64", tmp_path).platform == "manylinux_2_34_aarch64"


def test_what_does_not_run_here_says_what_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from release_lib import roots
    from release_lib.running import ReleaseError

    monkeypatch.setattr(roots, "_EMULATED", tmp_path)
    with pytest.raises(ReleaseError, match="apt-get install qemu-user-static"):
        roots.require_emulation("riscv64")
    (tmp_path / "qemu-riscv64").touch()
    roots.require_emulation("riscv64")


def test_another_machine_is_emulated_without_signed_addresses(tmp_path: Path) -> None:
    """With them, what qemu is unless told otherwise, a check takes hours."""
    from release_lib import roots

    command = roots.entering(tmp_path, "true")
    assert "QEMU_CPU=cortex-a72" in command[command.index("env") :]


def test_a_python_is_moved_with_pip_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from release_lib import pythons

    library = tmp_path / "built/lib/python3.12"
    for name in ("site-packages/pip", "site-packages/other", "json/__pycache__", "test"):
        (library / name).mkdir(parents=True)
    python = tmp_path / "built/bin/python3.12"
    python.parent.mkdir()
    python.touch()
    ran: list[tuple[object, ...]] = []
    monkeypatch.setattr(pythons, "_candidates", lambda _versions: [Path("/usr/bin/x"), python])
    monkeypatch.setattr(pythons, "_version", lambda _python: "3.12")
    monkeypatch.setattr(pythons, "run", lambda *words, log: ran.append((*words, log.name)))
    moved = tmp_path / "moved"
    assert pythons.movable(["3.11"], moved) is None
    assert pythons.movable(["3.12"], moved) == moved / "bin/python3.12"
    assert ran[0][2:4] == ("$ORIGIN/../lib", moved / "bin/python3.12")
    packages = moved / "lib/python3.12"
    kept = {str(path.relative_to(packages)) for path in packages.rglob("*")}
    assert kept == {"json", "site-packages", "site-packages/pip"}
    assert (moved / "conda-meta/history").exists()


def test_a_module_that_no_python_there_takes_ends_the_release(tmp_path: Path, tools: Path) -> None:
    from release_lib.running import ReleaseError

    module = "rlscope_trace/_ingest.cpython-311-{}-linux-gnu.so"
    assert finished({**BUILT, module.format("x86_64"): b""}, tmp_path / "one", tools).exists()
    with pytest.raises(ReleaseError, match=r"not for x86_64: .*_ingest"):
        finished({**BUILT, module.format("aarch64"): b""}, tmp_path / "two", tools)


def test_a_library_that_nobody_knows_ends_the_release(tmp_path: Path, tools: Path) -> None:
    from release_lib.running import ReleaseError

    strange = {**BUILT, "rlscope_trace.libs/libssl-12ab.so.3": b""}
    with pytest.raises(ReleaseError, match=r"libssl-12ab\.so\.3"):
        finished(strange, tmp_path / "one", tools)
