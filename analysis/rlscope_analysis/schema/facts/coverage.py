"""What was measured, how, and why not: the codes of coverage, and of transitions.

A new one is one entry here, and one Fact where it is found. Parameters of the sentences: subject,
detail, count as in coverage; since_s: its ts_ns, from the start of the trace on; ms, s: its
duration_ns; result, meaning: of its count, as CUPTI returns it. Sentences of one row of a summary
come in the order of this table.
"""

from __future__ import annotations

from rlscope_analysis.schema.facts.coverage_cupti import CUPTI
from rlscope_analysis.schema.facts.coverage_entry import Coverage
from rlscope_analysis.schema.facts.coverage_entry import part as _part
from rlscope_analysis.schema.facts.coverage_late import LATE

_GENERAL = {
    "not_asked_for": Coverage("not asked for: {subject}"),
    "not_reported": Coverage(
        "this version of rlscope-trace records them, the one that made the spool did not"
    ),
    "recorder_failed": _part("the recorder failed: {detail}"),
    "attaching_held_up": _part("the recorder failed: a thread that attaches probes was held up"),
    "btf_needed": Coverage("needs the capture btf: x86-64 or aarch64, and an OS kernel with BTF"),
    "probes_refused": Coverage("the OS kernel takes no such probe: {detail}"),
    "clock_refused": Coverage("the OS kernel refuses the clock: {detail}"),
    "kept_last": Coverage(
        "the recording was longer: what it kept begins {s} s after its start (--last)"
    ),
    "other_clock": Coverage(
        "it runs in a time namespace, by another clock: when what it reported of itself was is not"
        " known"
    ),
}
# Operations, and the shim that tells of them and of GPUs.
_SHIM = {
    "nvtx_ranges": Coverage("NVTX ranges; --no-auto: no phases"),
    "nvtx_and_phases": Coverage("NVTX ranges, and phases found automatically"),
    "not_launched": Coverage(
        "the process was not started by rlscope-trace, so {subject} has no tool in it"
    ),
    "shim_missing": Coverage("this installation lacks {subject}: reinstall rlscope-trace"),
    "shim_unreadable": Coverage(
        "user {count} may not read {subject}: install it where every user can"
    ),
    "program_static": Coverage("{subject} is statically linked: no library can be loaded into it"),
    "other_nvtx_tool": Coverage(
        "another tool listens to NVTX: {subject} is {detail}; unset it to record operations"
    ),
    "other_cuda_tool": Coverage(
        "another tool is loaded with CUDA: {subject} is {detail}; unset it to record GPUs"
    ),
    "other_recorder": Coverage("another recorder read the operations of this process"),
    "other_recorder_first": _part("at first, another recorder read the operations of this process"),
    "shim_without_memory": Coverage(
        "the shim could not share memory: the program set a seccomp filter, or a limit on the size"
        " of files or memory (ulimit -f, -v)"
    ),
    "phase_adapter_failed": _part("the adapter of {subject} failed {count} times: {detail}"),
    "phase_adapter_failed_once": _part("the adapter of {subject} failed once: {detail}"),
    "phase_library_unknown": _part(
        "{subject} was imported, and nothing says where its phases are: rows for its functions or"
        " timers, given by --phases FILE, do"
    ),
    "more_phase_adapters": _part("more adapters failed, {count} times"),
    "ray_async_actors": _part(
        "left out: methods of async actors ({count} actors), which overlap in one thread"
    ),
    "ray_async_methods": _part(
        "methods of async actors ({count} actors) overlap in one thread: they are in async_range,"
        " as far as the cluster tells of them"
    ),
}
_CALLS = {
    "stack_switching": _part(
        "pid {count} loaded {subject}, and the OS kernel ends programs that switch stacks inside"
        " probed calls"
    ),
    "python_not_found": Coverage("no Python was found in it"),
    "ended_unseen": Coverage("it ended before it could be looked at"),
    "held_up": _part("its memory or its files did not answer: what it loaded was not looked at"),
    "pypy": Coverage("it runs PyPy, whose calls are compiled: nothing can be probed"),
    "pypy_samples": _part("its Python functions are not sampled"),
    "free_threaded": _part(
        "this Python is free-threaded: it has no GIL to wait for, and its functions are not sampled"
    ),
    "gil_not_found": _part("where its GIL lies was not found: waits for it count as lock"),
    "gil_not_looked_for": _part("it was not looked at: waits for a GIL of its own count as lock"),
    "subinterpreters": _part(
        "it has several interpreters: waits for a GIL of their own count as lock"
    ),
    "gil_not_probed": _part("{subject}: not probed: {detail}"),
    "gil_functions_missing": _part("{subject}: not probed: its functions for that were not found"),
    "sampled": Coverage("{count} samples per second and CPU"),
    "cuda_not_probed": Coverage("the CUDA API is not probed"),
    "see_cuda_call": Coverage("recorded of processes that use CUDA: cuda_call"),
}
_GPU = {
    "cuda_calls_late": _part("only calls from {since_s} s after the start on"),
    "cuda_probed": Coverage(
        "by probes on the functions of {subject}: no GPU activity, no correlation"
    ),
    "cuda_probed_beside": Coverage(
        "when CUPTI did not tell: by probes on the functions of {subject}: no GPU activity, no"
        " correlation"
    ),
    "cuda_runtime_blind": Coverage(
        "calls of the runtime inside {subject} have no names and are not seen, those of the driver"
        " that they make are"
    ),
    "cuda_files_not_probed": Coverage("not probed: {detail}"),
    "cuda_ended_unprobed": Coverage("it ended before it could be probed"),
    "nvml": Coverage("NVML, every {ms} ms"),
    # A machine without a GPU lacks nothing.
    "no_nvidia_driver": Coverage(
        "nothing to measure: no NVIDIA driver ({subject} cannot be loaded)", is_lack=False
    ),
    "nvml_no_driver": Coverage("nothing to measure: NVML: {detail}", is_lack=False),
    "nvml_no_gpu": Coverage("nothing to measure: NVML knows no GPU", is_lack=False),
    "nvml_package_missing": Coverage(
        "the Python package {subject} is missing: pip install {subject}"
    ),
    "nvml_call_failed": Coverage("NVML: {detail}"),
    "nvml_gpu_refused": Coverage("GPU {count}: {detail}"),
    "nvml_unavailable": Coverage("{detail}"),
    "nvml_silent": Coverage("NVML had not answered when the recording ended"),
    "nvml_file_missing": Coverage("their file could not be written"),
    "nvml_refused": _part("{subject}: {detail}"),
    "nvml_refused_later": _part("{subject}: {detail} (after some readings)"),
    "nvml_ended": _part("the readings ended early: {detail}"),
}
_IMPORTS = {
    "kineto": Coverage("imported from Kineto"),
    "kineto_no_scheduling": Coverage("imported from Kineto, which records no scheduling"),
    "kineto_no_waits": Coverage("imported from Kineto, which records no reasons of waits"),
    "kineto_no_simulator": Coverage("imported from Kineto, which knows no simulator"),
    "kineto_no_gpu": Coverage(
        "imported from Kineto: the file holds no call of CUDA and no GPU activity; profile with"
        " ProfilerActivity.CUDA"
    ),
    "nsys_trace": Coverage("nsys profile --trace={subject}"),
    "nsys_switches": Coverage(
        "context switches of Nsight Systems: what a thread waits for a CPU after a wakeup is part"
        " of sleeping or blocked"
    ),
    "nsys_switches_unreported": Coverage(
        "the context switches of Nsight Systems do not tell why a thread leaves the CPU: whether"
        " it sleeps or waits for a CPU is not known"
    ),
    "nsys_no_switches": Coverage("the export has no rows of {subject}: no context switches"),
    "nsys_never": Coverage("Nsight Systems does not record it"),
    "nsys_os_runtime": Coverage("calls of the OS runtime are not imported"),
    "nsys_table_missing": Coverage(
        "the export has no rows of {subject}: not recorded, or none occurred"
    ),
    "nsys_no_gpu_work": Coverage("nsys profile --trace=cuda: no call gave work to a GPU"),
    "nsys_launches_only": Coverage(
        "the export has calls that launch work, but no activity of a GPU"
    ),
    "xplane": Coverage("imported from the JAX profiler"),
    "xplane_phases": _part(
        "phases by the metadata of XLA's instructions, in the part that was profiled; of their time"
        " {detail} has none ({count} instructions)"
    ),
    "xplane_no_programs": _part(
        "no phases: the profile carries no programs of XLA; name a dump of them with --hlo"
    ),
    "xplane_no_scheduling": Coverage(
        "imported from the JAX profiler, which records no scheduling and no waits"
    ),
    "xplane_no_simulator": Coverage("imported from the JAX profiler, which knows no simulator"),
    "xplane_no_gpu": Coverage("imported from the JAX profiler: the profile has no plane of a GPU"),
    "nsys_no_gpu": Coverage("the export has no activity of a GPU: not recorded, or none occurred"),
}
# Why the view transitions cannot tell a count; it adds them to those of coverage.
_TRANSITIONS = {
    "not_measured": Coverage("not measured"),
    "functions_not_probed": _part(
        "functions not probed to the end: {count}, for example {subject}"
    ),
    "calls_lost": _part("calls that were lost: {count}"),
    "calls_perhaps_lost": _part("calls may be among what was lost: {subject} in trace_stat"),
    "functions_not_found": _part("it ran, but none of its functions was found in time"),
    "probed_late": _part("only calls since the probes came, see --from"),
}

# What nobody writes any more, and what traces of earlier versions hold.
FORMER = {
    "cupti_off": Coverage("{detail}"),
    "cupti_other_program": _part(
        "it was another program too, of which CUPTI did not tell: {detail}"
    ),
    "cupti_call_failed": _part("{detail}"),
    "cupti_reading_failed": _part("perhaps nothing from {since_s} s after the start on: {detail}"),
    "cupti_call_failed_only": Coverage("{detail}"),
    "no_gpu": Coverage("nothing to measure: {detail}", is_lack=False),
    "shim_not_loaded": Coverage("{detail}"),
    "shim_loaded_late": _part("{detail}"),
}

COVERAGE: dict[str, Coverage] = {
    **_GENERAL, **_SHIM, **LATE, **_CALLS, **CUPTI, **_GPU, **_IMPORTS, **_TRANSITIONS, **FORMER,
}  # fmt: skip
