"""Bare roots of distributions, made by debootstrap, and programs run in them."""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from release_lib.running import WORK, ReleaseError, output_of, run, say

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = Path(os.environ.get("RLSCOPE_ROOTS", WORK / "roots"))
_DEBIAN, _UBUNTU = "Debian", "Ubuntu"
_UBUNTU_KEYS = "usr/share/keyrings/ubuntu-archive-keyring.gpg"
# What a client of a package registry needs to know of this machine, and nothing else of it.
_PASSED = (
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "PIP_CERT",
    "PIP_INDEX_URL",
    "PIP_DEFAULT_TIMEOUT",
)
_CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"
# They go with the program, however it ends.
_IN_OWN_MOUNTS = ("unshare", "--mount", "--propagation", "private")
_ENTER = """
root=$1 shared=$2
shift 2
mount --bind "$root" "$root"  # as in a container: mounts of files are listed only from there on
for name in proc sys dev; do mount --rbind "/$name" "$root/$name"; done
if [ -n "$shared" ]; then
  mkdir -p "$root/mnt/shared"
  mount --bind "$shared" "$root/mnt/shared"
  mount -o remount,bind,ro "$root/mnt/shared"
fi
exec chroot "$root" "$@"
"""
# dpkg-deb would put a folder in the place of the link that is /lib.
_UNPACK = 'dpkg-deb --fsys-tarfile "$1" | tar --extract --keep-directory-symlink --directory="$2"'
_UNPACKED = "Status: install ok unpacked"


@dataclass(frozen=True, slots=True)
class Root:
    """A root to make: the distribution, and which of its Pythons are tried."""

    suite: str
    distribution: str
    pythons: tuple[str, ...]
    shown: str
    machine: str = "x86_64"


ROOTS = {
    "jammy": Root("jammy", _UBUNTU, ("3.10",), "Ubuntu 22.04"),
    "bookworm": Root("bookworm", _DEBIAN, ("3.11",), "Debian 12"),
    "noble": Root("noble", _UBUNTU, ("3.12",), "Ubuntu 24.04"),
    "trixie": Root("trixie", _DEBIAN, ("3.13",), "Debian 13"),
    "testing": Root("testing", _DEBIAN, ("3.14", "3.15"), "Debian testing"),
    "bookworm-aarch64": Root("bookworm", _DEBIAN, ("3.11",), "Debian 12, aarch64", "aarch64"),
    "trixie-aarch64": Root("trixie", _DEBIAN, ("3.13",), "Debian 13, aarch64", "aarch64"),
    "testing-aarch64": Root(
        "testing", _DEBIAN, ("3.14", "3.15"), "Debian testing, aarch64", "aarch64"
    ),
}
# A real processor, which does not sign addresses: what distributions compile nowadays asks for that
# in each call and each return, and qemu is so slow at it that their Pythons take 20 times as long.
_PROCESSOR = {"QEMU_CPU": "cortex-a72"}
_DEBIAN_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
# Programs of another machine are run by qemu, where the OS kernel has been told of it.
_EMULATED = Path("/proc/sys/fs/binfmt_misc")


def make(name: str, *, use: str = "") -> Path:
    """Return the root of a distribution, made where it is not there yet; `use` names another one.

    Raises ReleaseError.
    """
    root, path = ROOTS[name], FOLDER / f"{name}{use}"
    if (path / ".complete").exists():
        return path
    require_emulation(root.machine)
    log = WORK / f"logs/{path.name}.log"
    _bootstrap(root, path, log=log)
    enter(path, "apt-get", *_apt_options(), "update", log=log)
    (path / ".complete").touch()
    return path


def copy_of(root: Path, name: str) -> Path:
    """Return a copy of a root, made anew, to install in what the others shall not have."""
    copy, log = FOLDER / f"copy-{name}", WORK / "logs/copies.log"
    run("rm", "--recursive", "--force", "--one-file-system", copy, log=log)
    # Not shutil: it would read what devices give.
    run("cp", "--archive", "--one-file-system", root, copy, log=log)
    return copy


def libraries(name: str, *packages: str) -> Path:
    """Return a root with what packages hold, to link with: nothing is set up, none of it has run.

    So it is made wherever debootstrap is, of any machine. Raises ReleaseError.
    """
    root, path = ROOTS[name], FOLDER / f"{name}-libraries"
    if (path / ".complete").exists():
        return path
    log = WORK / f"logs/{path.name}.log"
    _bootstrap(root, path, "--foreign", f"--include={','.join(packages)}", log=log)
    archives = sorted(path.glob("var/cache/apt/archives/*.deb"))
    for archive in archives:
        run("bash", "-c", _UNPACK, "unpack", archive, path, log=log)
    # Else they name what lies on this machine.
    for link in (path / "usr/lib").glob("*/*.so"):
        if link.is_symlink() and (to := link.readlink()).is_absolute():
            link.unlink()
            link.symlink_to(path / to.relative_to("/"))
    # As dpkg notes them, for who asks it which version a library has.
    status = (f"{output_of('dpkg-deb', '--field', archive)}\n{_UNPACKED}" for archive in archives)
    (path / "var/lib/dpkg/status").write_text("\n\n".join(status) + "\n")
    (path / ".complete").touch()
    return path


def _bootstrap(root: Root, path: Path, *options: str, log: Path) -> None:
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        raise ReleaseError("roots need root, and: sudo apt-get install debootstrap")
    say(f"making a root of {root.shown} ...")
    # What an interrupted run mounted in it is not ours to remove.
    run("rm", "--recursive", "--force", "--one-file-system", path, log=log)
    path.mkdir(parents=True)
    # All of Ubuntu's releases are made in one way, which an older debootstrap knows by this name.
    ubuntu = root.distribution == _UBUNTU
    keys, script = (["--keyring", _ubuntu_keys()], ["gutsy"]) if ubuntu else ([], [])
    components = "main,universe" if ubuntu else "main"
    machine = f"--arch={_DEBIAN_MACHINES[root.machine]}"
    options = (*keys, machine, "--variant=minbase", f"--components={components}", *options)
    run(*_IN_OWN_MOUNTS, "debootstrap", *options, root.suite, path, _mirror(root), *script,
        log=log, env=_PROCESSOR)  # fmt: skip


def require_emulation(machine: str) -> None:
    """Raise ReleaseError where programs of that machine do not run here."""
    if machine == os.uname().machine or (_EMULATED / f"qemu-{machine}").exists():
        return
    raise ReleaseError(
        f"programs of {machine} do not run here: sudo apt-get install qemu-user-static"
        f" && sudo mount -t binfmt_misc binfmt_misc {_EMULATED}"
        f" && sudo tee {_EMULATED}/register < /usr/lib/binfmt.d/qemu-{machine}.conf"
    )


def _mirror(root: Root) -> str:
    """Return where to fetch from; nothing: where debootstrap does for that distribution."""
    return os.environ.get(f"RLSCOPE_{root.distribution.upper()}_MIRROR", "")


def _ubuntu_keys() -> Path:
    """Return Ubuntu's keys: Debian 12 has no package of them, Debian testing has."""
    if Path("/", _UBUNTU_KEYS).exists():
        return Path("/", _UBUNTU_KEYS)
    keys = make("testing") / _UBUNTU_KEYS
    if not keys.exists():
        install(make("testing"), "ubuntu-keyring", log=WORK / "logs/testing.log")
    return keys


def _apt_options() -> list[str]:
    return shlex.split(os.environ.get("RLSCOPE_APT", ""))


def install(root: Path, *packages: str, log: Path) -> None:
    """Install packages of the distribution in a root."""
    enter(root, "apt-get", *_apt_options(), "install", "-y", "--no-install-recommends", *packages,
          log=log)  # fmt: skip


def enter(root: Path, *command: object, log: Path, shared: Path | None = None, **more: str) -> None:
    """Run a command in a root, with a folder to read at /mnt/shared. Raises ReleaseError."""
    run(*entering(root, *command, shared=shared), log=log, env=more)


def entering(root: Path, *command: object, shared: Path | None = None, **more: str) -> list[str]:
    """Return the command that does that, in mounts of its own: they go with it."""
    for name in ("etc/resolv.conf", _CERTIFICATES):
        if Path("/", name).exists():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(Path("/", name).read_bytes())
    env = _environment(more)
    words = ["env", "-i", *(f"{key}={value}" for key, value in env.items()), *map(str, command)]
    inside = [str(root), str(shared or ""), *words]
    return [*_IN_OWN_MOUNTS, "bash", "-eu", "-c", _ENTER, "enter", *inside]


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    passed = {key: os.environ[key] for key in _PASSED if key in os.environ}
    fixed = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
        "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", "PIP_NO_CACHE_DIR": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore",
    }  # fmt: skip
    return {**fixed, **_PROCESSOR, **passed, **more}
