"""All checks in one list, and what they mean together."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_trace.errors import PermissionNeededError, TracerError
from rlscope_trace.record.preflight import bcc, capabilities, disk, gpu, kernel, package

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rlscope_trace.record.preflight.finding import Finding

PERMISSION_FINDINGS = frozenset({"capabilities", "user_namespace"})


def run_checks(output: Path | None = None, *, argv: Sequence[str] = ("...",)) -> list[Finding]:
    """Look at everything, stop at nothing; `argv` is what the remedies tell to run again."""
    release = os.uname().release
    directory = disk.output_directory(output or Path())
    return [
        *_permission_findings(argv),
        *_kernel_findings(release),
        package.check_libelf(),
        package.check_bpf_objects(),
        *package.check_backends(),
        bcc.check_bcc(bcc.find_bcc()),
        bcc.check_kernel_headers(release),
        *gpu.check_gpu(os.environ),
        disk.check_directory(directory),
        disk.check_free_space(directory),
    ]


def _effective_capabilities() -> frozenset[str]:
    return capabilities.effective_capabilities(Path("/proc/self/status").read_text())


def _permission_findings(argv: Sequence[str]) -> list[Finding]:
    effective = _effective_capabilities()
    euid = os.geteuid()
    may_bpf = not effective.isdisjoint({"CAP_SYS_ADMIN", "CAP_BPF"})
    may_perf = not effective.isdisjoint({"CAP_SYS_ADMIN", "CAP_PERFMON"})
    return [
        capabilities.check_tracing_capabilities(effective, euid=euid, argv=argv),
        capabilities.check_ptrace_capability(effective, euid=euid, argv=argv),
        capabilities.check_resource_capability(effective),
        capabilities.check_user_namespace(Path("/proc/self/ns/user").stat().st_ino),
        kernel.check_sysctl("kernel.unprivileged_bpf_disabled", has_capability=may_bpf),
        kernel.check_perf_events(is_admin="CAP_SYS_ADMIN" in effective, has_capability=may_perf),
    ]


def _kernel_findings(release: str) -> list[Finding]:
    btf = kernel.has_btf()
    can_raise = "CAP_SYS_RESOURCE" in _effective_capabilities()
    memlock_bytes = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return [
        kernel.check_machine(os.uname().machine),
        kernel.check_release(release),
        kernel.check_btf(),
        kernel.check_tracefs(needed=not btf),
        kernel.check_lockdown(),
        kernel.check_pid_namespace(Path("/proc/self/ns/pid").stat().st_ino, btf=btf),
        kernel.check_root_mount(),
        kernel.check_memlock(memlock_bytes, release=release, can_raise=can_raise),
    ]


def working_backend(findings: Iterable[Finding]) -> str | None:
    """Return the first backend that works, which is the one a session takes."""
    for finding in findings:
        if finding.name.startswith(package.BACKEND_PREFIX) and finding.level == "ok":
            return finding.name.removeprefix(package.BACKEND_PREFIX)
    return None


def tracing_works(findings: Sequence[Finding]) -> bool:
    """Return whether a session could start now: some backend works and nothing is in its way."""
    return working_backend(findings) is not None and all(f.level != "error" for f in findings)


def explain_failure(
    reason: str,
    *,
    argv: Sequence[str],
    output: Path | None = None,
    findings: Sequence[Finding] | None = None,
) -> TracerError:
    """Return the error for a session that could not start: all that is missing, a line each.

    `reason` is what the loader said, used only if no check finds a cause. The hint holds one
    remedy a line, with the user's own command line where more privilege is what is missing.
    """
    found = run_checks(output, argv=argv) if findings is None else findings
    errors = [finding for finding in found if finding.level == "error"]
    if not errors:
        message = f"the BPF programs could not be loaded: {reason}"
        return TracerError(message, hint="rlscope-trace doctor")
    lacks_permission = any(finding.name in PERMISSION_FINDINGS for finding in errors)
    if lacks_permission:
        # Programs that may not be loaded do not load, and closed folders are not missing ones:
        # consequences, which the first remedy mends.
        errors = [finding for finding in errors if not _is_consequence(finding)]
    kind = PermissionNeededError if lacks_permission else TracerError
    remedies = dict.fromkeys(finding.remedy for finding in errors if finding.remedy)
    hints = tuple(remedies) or ("rlscope-trace doctor",)
    return kind(*(finding.what for finding in errors), hint=hints)


def _is_consequence(finding: Finding) -> bool:
    """Return whether lacking privilege alone would cause this finding."""
    return finding.name.startswith(package.BACKEND_PREFIX) or (
        finding.name == "tracefs" and finding.remedy is None
    )
