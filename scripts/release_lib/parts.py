"""What of others travels in a wheel: linked in, or beside the modules; and under which licence."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from release_lib.running import ReleaseError, output_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Part:
    """A library: its release, its licence, and by which name its file is known in the wheel."""

    name: str
    version: str
    licence: str
    licence_text: bytes
    file: str | None
    source: str


# Debian's package; the licence; the file in the wheel, None where headers are compiled in. Zycore
# is linked into Zydis.
_DEBIAN = (
    ("libbpf", "libbpf1", "LGPL-2.1-only OR BSD-2-Clause", "libbpf.so"),
    ("libelf", "libelf1", "LGPL-3.0-or-later OR GPL-2.0-or-later", "libelf"),
    ("zydis", "libzydis4.0", "MIT", "libZydis"),
    ("zycore", "libzycore-dev", "MIT", "libZydis"),
    ("rapidjson", "rapidjson-dev", "MIT", None),
)
# Debian's files of copyright name the text of a licence that many have, which lies here.
_COMMON = "usr/share/common-licenses"
_BUILT_OF = "rlscope-trace:sha256-of-source-archive"


def travelling(names: Sequence[str], tools: Path, root: Path) -> list[Part]:
    """Return what of others is in a wheel with these files, from the packages of `root`.

    Raises ReleaseError for a stranger.
    """
    libraries = {name.rpartition("/")[2] for name in names if _is_library(name)}
    found, strangers = [], {name for name in libraries if not name.startswith("librlscope_")}
    for name, package, licence, file in _DEBIAN:
        here = [library for library in libraries if file and library.startswith(file)]
        strangers -= set(here)
        if file is not None and not here:
            continue
        version = _asked(root, "${Version}", package)
        source = _asked(root, "${source:Package} ${source:Version}", package)
        text = (root / f"usr/share/doc/{package}/copyright").read_bytes()
        found.append(
            Part(name, version, licence, text, here[0] if here else None, f"Debian {source}")
        )
    if strangers:
        raise ReleaseError(f"nobody has said what these are: {', '.join(sorted(strangers))}")
    (info,) = (tools.parent / "lib").glob("python*/site-packages/pybind11-*.dist-info")
    text = (info / "licenses/LICENSE").read_bytes()
    version = info.name.removesuffix(".dist-info").partition("-")[2]
    found.append(Part("pybind11", version, "BSD-3-Clause", text, None, "PyPI"))
    return found


def common_licences(found: Sequence[Part], root: Path) -> dict[str, bytes]:
    """Return the texts, by name, that the licences of parts speak of and do not hold."""
    said = b"\n".join(part.licence_text for part in found).decode("utf-8", "replace")
    names = set(re.findall(rf"/{_COMMON}/([\w.-]*\w)", said))
    return {name: (root / _COMMON / name).read_bytes() for name in sorted(names)}


def require_names_of(machine: str, names: Sequence[str]) -> None:
    """Raise ReleaseError where a module is named for another machine: no Python there takes it."""
    modules = [name for name in names if ".cpython-" in name and name.endswith(".so")]
    if wrong := [name for name in modules if not name.endswith(f"-{machine}-linux-gnu.so")]:
        raise ReleaseError(f"not for {machine}: {', '.join(sorted(wrong))}")


def built_of(bill: bytes) -> str:
    """Return the SHA-256 of the source archive that a wheel with this list was built of."""
    properties = json.loads(bill)["metadata"]["properties"]
    return next(str(entry["value"]) for entry in properties if entry["name"] == _BUILT_OF)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _asked(root: Path, what: str, package: str) -> str:
    admin = root / "var/lib/dpkg"
    return output_of("dpkg-query", f"--admindir={admin}", "-W", f"-f={what}", package)


def _is_library(name: str) -> bool:
    return "/lib" in name and ".so" in name.rpartition("/")[2]


def bill_of_materials(
    version: str, archive: Path, found: Sequence[Part], contents: Mapping[str, bytes]
) -> bytes:
    """Return the list of them in CycloneDX; the same for the same wheel.

    archive: the source archive that the wheel was built of.
    """
    hashes = {
        name.rpartition("/")[2]: hashlib.sha256(data).hexdigest() for name, data in contents.items()
    }
    components = []
    for part in found:
        component = {
            "type": "library", "name": part.name, "version": part.version,
            "licenses": [{"expression": part.licence}],
            "properties": [{"name": "rlscope-trace:source", "value": part.source}],
        }  # fmt: skip
        if part.file is not None:
            component["hashes"] = [{"alg": "SHA-256", "content": hashes[part.file]}]
        components.append(component)
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "name": "rlscope-trace", "version": version},
            "properties": [{"name": _BUILT_OF, "value": sha256(archive)}],
        },
        "components": components,
    }
    known = json.dumps([bill, hashes], sort_keys=True)
    bill["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, known)}"
    return (json.dumps(bill, indent=2) + "\n").encode()
