"""What the shim gives, and does not give, that is loaded into a process while it runs.

And why there are no phases: in such a process, and in one that was launched.
"""

from __future__ import annotations

from rlscope_analysis.schema.facts.coverage_entry import Coverage, part


def _no_phases(why: str) -> Coverage:
    return Coverage(why, "there are no automatic phases: ", is_part=True)


_PHASES = {
    "phases_other_python": _no_phases("Python is {subject}, not CPython"),
    "phases_old_python": _no_phases("Python is older than 3.8"),
    "phases_free_threaded": _no_phases("Python is built without the GIL"),
    "phases_not_loaded": _no_phases("phases cannot be loaded: {detail}"),
    "phases_native_not_loaded": _no_phases("the native module cannot be loaded: {detail}"),
    "phases_not_started": _no_phases("phases cannot be started: {detail}"),
    "phases_no_tool": _no_phases("no NVTX tool is injected (NVTX_INJECTION64_PATH)"),
    "phases_absent": _no_phases("{detail}"),
}


def _refused(why: str) -> Coverage:
    return Coverage(why, "the shim cannot be loaded into pid {count}: ")


# What the shim gives that is loaded into a process while it runs: said when it is, not stored.
_GIVEN = {
    "late_ranges": Coverage("NVTX ranges of {count} object(s) that were loaded before the attach"),
    "late_later_ranges": Coverage("NVTX ranges of objects that are loaded from here on"),
    "late_package_ranges": Coverage("ranges that the Python package nvtx makes from here on"),
    "late_phases": Coverage("automatic phases from here on"),
    "late_already": Coverage("the shim is loaded already"),
}
# What it does not give.
_GAPS = {
    "late_open_ranges": part("ranges that had begun before the attach are missing"),
    "late_still_looking": part(
        "the shim has not finished its look through the process: NVTX ranges may be missing"
    ),
    "late_decorated": part(
        "functions that were decorated with nvtx.annotate before the attach give no ranges"
    ),
    "late_domains": part("nvtx domains that the program fetched before the attach give no ranges"),
    "late_nvtx_disabled": part(
        "NVTX_DISABLE is set in the program: its Python package nvtx gives no ranges"
    ),
    "late_foreign_objects": part("{count} object(s) send their NVTX ranges to another tool"),
    "late_busy_objects": part("{count} object(s) with NVTX were being set up and are not captured"),
    "late_no_python": part(
        "NVTX ranges of libraries that the program loads from here on are missing"
    ),
    "late_python_busy": part(
        "the Python interpreter is busy: what it must do itself comes when it can"
    ),
    "late_python_failed": part(
        "the Python half of the attach failed: ranges of the package nvtx are missing"
    ),
    **_PHASES,
    "late_phases_incomplete": part(
        "automatic phases are incomplete: the adapter of {subject} failed: {detail}"
    ),
    "late_python_error": part("inside the interpreter: {detail}"),
}
# Why it is not loaded at all. {count}: the pid of the process.
_REFUSALS = {
    "late_target_gone": Coverage("pid {count} has ended"),
    "late_held_up": Coverage("pid {count} cannot be looked at: {detail}"),
    "late_stopped": _refused("it is stopped"),
    "late_traced": _refused("pid {subject} traces it already (a debugger, strace)"),
    "late_ourselves": _refused("it is the recorder itself or started it"),
    "late_seccomp": _refused(
        "it has put itself under a seccomp filter, which may kill it for what we do"
    ),
    "late_shadow_stack": _refused("it runs with a shadow stack, which forbids calls from outside"),
    "late_memory_refused": _refused("its memory may not be looked at"),
    "late_no_program": _refused("it has no program (a thread of the kernel?)"),
    "late_other_machine": _refused(
        "libraries are loaded into running programs on x86-64 only, and it is no such program"
    ),
    "late_musl": _refused("it uses musl: only programs with glibc can be attached to late"),
    "late_static": _refused("it is statically linked, so that no library can be loaded into it"),
    "late_other_files": _refused("it has a file system of its own, without {subject}"),
    "late_noexec": _refused("{subject} lies in a file system from which nothing may be executed"),
    "late_unreadable": _refused("its user may not read {subject}"),
    "late_not_loaded": Coverage("the shim could not be loaded into pid {count}: {detail}"),
    "late_no_room": Coverage(
        "the shim is loaded into pid {count}, but cannot work there: a limit of the process"
        " (memory, files, threads) is in its way"
    ),
    "late_other_version": Coverage(
        "the process has a shim of another version loaded ({count}, ours is {subject})"
    ),
    "late_long_paths": Coverage("the paths to hand to the process are too long for a late attach"),
}

LATE: dict[str, Coverage] = {**_GIVEN, **_GAPS, **_REFUSALS}
