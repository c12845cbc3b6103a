"""The last touch to a wheel: licences and a list of what travels in it, the same bytes again."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import time
import zipfile
from typing import TYPE_CHECKING

from release_lib import parts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from release_lib.machines import Machine

_FIRST_DATE = (1980, 1, 1, 0, 0, 0)


SBOM = "sboms/rlscope-trace.cdx.json"


def finish(  # noqa: PLR0913 - each is a place
    wheel: Path, out: Path, *, archive: Path, epoch: int, pybind11: Path, machine: Machine
) -> Path:
    """Write the wheel into `out` with licences and an SBOM, its files in order and of one time.

    archive: the sources that it was built of. Raises ReleaseError.
    """
    with zipfile.ZipFile(wheel) as file:
        members = {
            info.filename: (file.read(info), (info.external_attr >> 16) & 0o111 != 0)
            for info in file.infolist()
            if not info.is_dir()
        }
    (record,) = [name for name in members if name.endswith(".dist-info/RECORD")]
    folder = record.rpartition("/")[0]
    # auditwheel lists what it added, with the machine it ran on.
    for name in [name for name in members if name.startswith(f"{folder}/sboms/")]:
        del members[name]
    found = parts.travelling(list(members), pybind11, machine.root)
    parts.require_names_of(machine.name, list(members))
    texts = {part.name: part.licence_text for part in found}
    texts |= parts.common_licences(found, machine.root)
    lines = []
    for name, licence in texts.items():
        members[f"{folder}/licenses/third_party/{name}.txt"] = (licence, False)
        lines.append(f"License-File: third_party/{name}.txt")
    metadata, _ = members[f"{folder}/METADATA"]
    head, _, body = metadata.decode().partition("\n\n")
    head = _with_licences_of(found, head)
    text = "\n".join([head, *lines]) + "\n\n" + body
    members[f"{folder}/METADATA"] = (text.encode(), False)
    contents = {name: data for name, (data, _) in members.items() if ".so" in name}
    bill = parts.bill_of_materials(_version(head), archive, found, contents)
    members[f"{folder}/{SBOM}"] = (bill, False)
    members[record] = (_record(members, record), False)
    return _write(out / wheel.name, members, record, epoch)


def _with_licences_of(found: Sequence[parts.Part], head: str) -> str:
    """Return the metadata whose expression of licences has those of what travels, too."""
    theirs = dict.fromkeys(
        f"({part.licence})" if " " in part.licence else part.licence for part in found
    )
    own = "License-Expression: "
    lines = [
        " AND ".join([line, *theirs]) if line.startswith(own) else line for line in head.split("\n")
    ]
    return "\n".join(lines)


def built_of(wheel: Path) -> str:
    """Return the SHA-256 of the source archive that a wheel of ours was built of."""
    with zipfile.ZipFile(wheel) as file:
        (name,) = [name for name in file.namelist() if name.endswith(f".dist-info/{SBOM}")]
        return parts.built_of(file.read(name))


def _version(metadata: str) -> str:
    return next(line for line in metadata.splitlines() if line.startswith("Version: "))[9:]


def _record(members: dict[str, tuple[bytes, bool]], record: str) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for name in sorted(members.keys() - {record}):
        data = members[name][0]
        code = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        writer.writerow([name, f"sha256={code}", len(data)])
    writer.writerow([record, "", ""])
    return text.getvalue().encode()


def _write(path: Path, members: dict[str, tuple[bytes, bool]], record: str, epoch: int) -> Path:
    date = max(time.gmtime(epoch)[:6], _FIRST_DATE)
    # What describes a wheel stands at its end, where installers look first.
    order = sorted(members, key=lambda name: (".dist-info/" in name, name == record, name))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for name in order:
            data, is_program = members[name]
            info = zipfile.ZipInfo(name, date)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3
            info.external_attr = (0o100755 if is_program else 0o100644) << 16
            file.writestr(info, data)
    return path
