"""Checks of what this process may do: capabilities, and whether they count at all."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rlscope_trace.confinement import CAPABILITIES
from rlscope_trace.record.preflight.finding import Finding, sudo_command

if TYPE_CHECKING:
    from collections.abc import Sequence

CAPABILITY_BITS = {
    name: CAPABILITIES[name]
    for name in ("CAP_SYS_PTRACE", "CAP_SYS_ADMIN", "CAP_SYS_RESOURCE", "CAP_PERFMON", "CAP_BPF")
}
# Inode of the first user namespace (PROC_USER_INIT_INO); fixed in every kernel.
INITIAL_USER_NAMESPACE = 0xEFFFFFFD
DOCKER_REMEDY = (
    "docker run --cap-add BPF --cap-add PERFMON --cap-add SYS_PTRACE ... (or --privileged)"
)


def effective_capabilities(status: str) -> frozenset[str]:
    """Return those of `CAPABILITY_BITS` that the text of a /proc/PID/status says are effective."""
    match = re.search(r"^CapEff:\s*([0-9a-f]+)$", status, re.MULTILINE)
    mask = int(match[1], 16) if match else 0
    return frozenset(name for name, bit in CAPABILITY_BITS.items() if mask >> bit & 1)


def _remedy(argv: Sequence[str], *, euid: int) -> str:
    """Return the way to more capabilities: sudo, or the container's options if already root."""
    return DOCKER_REMEDY if euid == 0 else sudo_command(argv)


def check_tracing_capabilities(
    effective: frozenset[str], *, euid: int, argv: Sequence[str]
) -> Finding:
    """Check CAP_BPF and CAP_PERFMON, for which CAP_SYS_ADMIN stands in."""
    name = "capabilities"
    if "CAP_SYS_ADMIN" in effective:
        return Finding(name, "ok", "CAP_SYS_ADMIN is effective: it includes all that tracing needs")
    missing = [cap for cap in ("CAP_BPF", "CAP_PERFMON") if cap not in effective]
    if not missing:
        return Finding(name, "ok", "CAP_BPF and CAP_PERFMON are effective")
    what = f"tracing needs {' and '.join(missing)}"
    return Finding(name, "error", what, _remedy(argv, euid=euid))


def check_ptrace_capability(
    effective: frozenset[str], *, euid: int, argv: Sequence[str]
) -> Finding:
    """Check CAP_SYS_PTRACE, without which /proc of other users' processes is closed."""
    name = "ptrace"
    if "CAP_SYS_PTRACE" in effective:
        if effective & {"CAP_DAC_READ_SEARCH", "CAP_DAC_OVERRIDE"}:
            what = "CAP_SYS_PTRACE is effective: any user's processes can be read"
            return Finding(name, "ok", what)
        what = "CAP_SYS_PTRACE is effective, but native calls of other users' programs need more"
        return Finding(name, "note", what, "add CAP_DAC_READ_SEARCH, or record as that user")
    what = "CAP_SYS_PTRACE is missing: processes of other users cannot be traced"
    return Finding(name, "warning", what, _remedy(argv, euid=euid))


def check_resource_capability(effective: frozenset[str]) -> Finding:
    """Check CAP_SYS_RESOURCE, which only lifts limits that rarely bind."""
    name = "limits"
    if "CAP_SYS_RESOURCE" in effective:
        return Finding(name, "ok", "CAP_SYS_RESOURCE is effective: own limits can be raised")
    what = "CAP_SYS_RESOURCE is missing: own limits cannot be raised (since 5.11 none matters)"
    return Finding(name, "note", what)


def check_user_namespace(inode: int) -> Finding:
    """Check that root is root of the machine: BPF takes only its capabilities."""
    name = "user_namespace"
    if inode == INITIAL_USER_NAMESPACE:
        return Finding(name, "ok", "in the machine's own user namespace")
    what = (
        f"in user namespace {inode}, a rootless container: the machine's kernel gives its "
        "capabilities no right to load BPF programs"
    )
    return Finding(name, "error", what, "run on the host, or in a container started by root")
