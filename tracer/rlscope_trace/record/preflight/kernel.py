"""Checks of the running kernel: release, BTF, tracefs, lockdown, namespaces, limits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_trace import confinement
from rlscope_trace.record.preflight.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlscope_trace.record.preflight.finding import Level

BTF_PATH = Path("/sys/kernel/btf/vmlinux")
TRACEFS_ROOTS = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))
LOCKDOWN_PATH = Path("/sys/kernel/security/lockdown")
SYSCTL_ROOT = Path("/proc/sys")
# Inode of the first pid namespace (PROC_PID_INIT_INO); fixed in every kernel.
INITIAL_PID_NAMESPACE = 0xEFFFFFFC
# 5.8 brought the BPF ring buffer and CAP_BPF; 5.11 task storage for tracing programs, and memory
# accounting by cgroup in place of RLIMIT_MEMLOCK; 5.18 prev_state in the arguments of sched_switch.
OLDEST_KERNEL = (5, 8)
TASK_STORAGE_KERNEL = (5, 11)
BTF_SWITCH_KERNEL = (5, 18)
# The default ring and the maps, with room.
MEMLOCK_NEEDED_BYTES = 64 << 20
UNLIMITED = -1


def parse_release(release: str) -> tuple[int, int] | None:
    """Return (major, minor) of `uname -r`, or None if it is no version."""
    match = re.match(r"(\d+)\.(\d+)", release)
    return (int(match[1]), int(match[2])) if match else None


def check_release(release: str) -> Finding:
    """Check the release; never an error: distributions carry features back, the backends decide."""
    name = "kernel"
    version = parse_release(release)
    if version is None:
        return Finding(name, "note", f"{release} is no release this tool can judge")
    if version < OLDEST_KERNEL:
        what = f"{release} is older than 5.8, the first with the BPF ring buffer"
        return Finding(name, "warning", what, "boot a newer kernel, 5.11 at least")
    if version < TASK_STORAGE_KERNEL:
        what = f"{release} is older than 5.11, the first with task storage for tracing"
        return Finding(name, "warning", what, "boot a newer kernel, 5.11 at least")
    if version < BTF_SWITCH_KERNEL:
        what = f"{release} is older than 5.18: the thread state at a switch comes from tracefs"
        return Finding(name, "note", what)
    return Finding(name, "ok", f"{release} has all that is used (5.18)")


def check_machine(machine: str) -> Finding:
    """Say what of a recording this kind of machine cannot have."""
    name = "machine"
    if machine == "x86_64":
        return Finding(name, "ok", "x86-64: all parts of a recording")
    what = (
        f"{machine}: recorded on under emulation only; the shim, GPUs, pages of 16 and 64 KiB and"
        " costs were never tried there, and --inject works on x86-64 only"
    )
    return Finding(name, "note", what)


def has_btf(path: Path = BTF_PATH) -> bool:
    """Return whether the kernel's type information can be read: its first two bytes are a magic."""
    try:
        with path.open("rb") as file:
            return file.read(2) in (b"\x9f\xeb", b"\xeb\x9f")
    except OSError:
        return False


def check_btf(path: Path = BTF_PATH) -> Finding:
    """Check for the kernel's type information, which the first backend needs."""
    if has_btf(path):
        return Finding("btf", "ok", f"{path} is readable")
    reason = "cannot be read" if path.exists() else "does not exist"
    what = f"{path} {reason}: offsets are read from tracefs instead"
    return Finding("btf", "warning", what, "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y")


def _tracefs_error(root: Path) -> OSError | None:
    try:
        (root / "events/sched/sched_switch/format").read_bytes()
    except OSError as error:
        return error
    return None


def check_tracefs(roots: Sequence[Path] = TRACEFS_ROOTS, *, needed: bool) -> Finding:
    """Check that tracefs is mounted and readable; `needed` says that there is no BTF."""
    level: Level = "error" if needed else "warning"
    purpose = "there is no BTF, so tracing needs it" if needed else "needed without BTF and by bcc"
    errors = {root: _tracefs_error(root) for root in roots}
    for root, error in errors.items():
        if error is None:
            return Finding("tracefs", "ok", f"{root} is mounted and readable")
    for root, error in errors.items():
        if isinstance(error, PermissionError):
            return Finding("tracefs", level, f"{root} is not readable by this user ({purpose})")
    what = f"tracefs is not mounted ({purpose})"
    return Finding("tracefs", level, what, f"sudo mount -t tracefs tracefs {roots[0]}")


def check_lockdown(path: Path = LOCKDOWN_PATH) -> Finding:
    """Check kernel lockdown: `confidentiality` forbids BPF to read kernel memory."""
    name = "lockdown"
    try:
        text = path.read_text()
    except OSError:
        # securityfs names the active security modules in `lsm`: there, but no lockdown in it.
        if (path.parent / "lsm").exists():
            return Finding(name, "ok", "not built into this kernel")
        remedy = f"sudo mount -t securityfs securityfs {path.parent}"
        return Finding(name, "note", f"not known: {path} cannot be read", remedy)
    match = re.search(r"\[(\w+)\]", text)
    mode = match[1] if match else text.strip()
    if mode == "confidentiality":
        what = "lockdown is confidentiality: BPF programs may not read kernel memory"
        remedy = "boot with lockdown=integrity on the kernel command line"
        return Finding(name, "error", what, remedy)
    return Finding(name, "ok", f"{mode}: BPF tracing is allowed")


def check_pid_namespace(inode: int, *, btf: bool) -> Finding:
    """Check for a nested pid namespace, where only the BTF backend can tell whose record it is."""
    name = "pid_namespace"
    if inode == INITIAL_PID_NAMESPACE:
        return Finding(name, "ok", "in the machine's own pid namespace")
    if btf:
        what = f"in nested pid namespace {inode}: works with BTF, --loader bcc does not"
        return Finding(name, "note", what)
    what = f"in nested pid namespace {inode} without BTF: no record would be found to be ours"
    return Finding(name, "error", what, "run on the host, or: docker run --pid=host ...")


def check_root_mount(mounts: Path = Path("/proc/self/mountinfo")) -> Finding:
    """Check for a chroot into a plain folder: the OS kernel does not list the mount of its files.

    What serves them is not known then, and nothing that might be made to wait is read.
    """
    name = "root_mount"
    try:
        lines = mounts.read_text(errors="replace").splitlines()
    except OSError:
        return Finding(name, "note", f"not known: {mounts} cannot be read")
    # Number, parent, device, root, and then where it is mounted.
    if any(line.split()[4:5] == ["/"] for line in lines):
        return Finding(name, "ok", "the root directory is a mount")
    what = "in a chroot that is no mount: no functions, phases and calls of programs in it"
    return Finding(name, "warning", what, "before chroot FOLDER: mount --bind FOLDER FOLDER")


def check_sysctl(key: str, *, has_capability: bool, root: Path = SYSCTL_ROOT) -> Finding:
    """Report a sysctl that narrows what processes without CAP_BPF and CAP_PERFMON may do."""
    name = key.rpartition(".")[2]
    try:
        value = (root / key.replace(".", "/")).read_text().strip()
    except OSError:
        return Finding(name, "note", f"{key} cannot be read")
    if has_capability:
        return Finding(name, "ok", f"{key} is {value}: does not matter with these capabilities")
    what = f"{key} is {value}: matters only as long as capabilities are missing"
    return Finding(name, "note", what)


def check_perf_events(*, is_admin: bool, has_capability: bool, root: Path = SYSCTL_ROOT) -> Finding:
    """Report how far perf events are restricted: samples are of them, and calls before Linux 6.6.

    Debian's and Ubuntu's kernels ask for CAP_SYS_ADMIN above 2, where Linux itself knows no more.
    """
    key = "kernel.perf_event_paranoid"
    found = check_sysctl(key, has_capability=has_capability, root=root)
    try:
        value = int((root / key.replace(".", "/")).read_text())
    except (OSError, ValueError):
        return found
    if is_admin or not has_capability or value <= confinement.FOR_PERFMON:
        return found
    what = f"{key} is {value}: kernels of Debian and Ubuntu then take no samples for you"
    return Finding(found.name, "warning", what, f"sudo sysctl {key}={confinement.FOR_PERFMON}")


def check_memlock(limit_bytes: int, *, release: str, can_raise: bool) -> Finding:
    """Check RLIMIT_MEMLOCK, against which kernels before 5.11 count the ring buffer."""
    name = "memlock"
    version = parse_release(release)
    if version is None or version >= TASK_STORAGE_KERNEL:
        return Finding(name, "ok", "RLIMIT_MEMLOCK does not limit BPF maps since 5.11")
    if limit_bytes == UNLIMITED or can_raise or limit_bytes >= MEMLOCK_NEEDED_BYTES:
        return Finding(name, "ok", "RLIMIT_MEMLOCK is high enough, or can be raised")
    what = f"RLIMIT_MEMLOCK is {limit_bytes:,} bytes, the ring needs up to {MEMLOCK_NEEDED_BYTES:,}"
    return Finding(name, "warning", what, "ulimit -l unlimited")
