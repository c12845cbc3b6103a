"""Losses of GPU records and of readings of GPUs."""

from __future__ import annotations

from rlscope_analysis.schema.facts.loss import DAMAGED, KILLED, OUTSIDE, SPACE, Loss

_NEWER = "a newer rlscope-trace may know the records of this CUDA"
_DRIVER = "look at the driver: dmesg | grep -i nvrm"
_FROM_START = "record the program from its start: rlscope-trace -- COMMAND"
GPU = {
    "cupti_buffers_full": Loss(
        "dropped", "GPU records: CUPTI had no buffer left",
        "record less: without --cuda-memory, with --cuda-graphs graph",
    ),
    "cupti_without_memory": Loss(
        "dropped", "GPU records: there was no memory for a buffer of CUPTI",
        "leave the program more memory: the machine, or its limit (ulimit -v, cgroup), was full",
    ),
    # The last 0.4 s at most: CUPTI gives away what it holds at that pace.
    "cupti_held_records": Loss(
        "truncated",
        "GPU records of processes that ended, or were left, while CUPTI held some: the last 0.4 s"
        " at most, and what was under way",
        "let the program end by itself: kill -9, os._exit and exec leave CUPTI no time",
    ),
    "cupti_kind_unknown": Loss(
        "dropped", "GPU records of a form that is not known, of CUPTI's kind {record}", _NEWER
    ),
    "cupti_kinds_unknown": Loss(
        "dropped", "GPU records of a form that is not known, of other kinds of CUPTI", _NEWER
    ),
    "cupti_lost_otherwise": Loss(
        "dropped", "GPU records: for reason {detail}, which is not known", _NEWER
    ),
    "cupti_call_failed": Loss(
        "dropped", "GPU records: a call of CUPTI failed, which table coverage names"
    ),
    "gpu_untimed": Loss(
        "dropped", "GPU records without a start or an end",
        "synchronise the GPU before the program ends, and let it end by itself",
    ),
    "gpu_backwards": Loss("dropped", "GPU records that end before they start"),
    "gpu_clock_unknown": Loss(
        "dropped", "GPU records on a clock that cannot be converted",
        "record for longer than a second, and do not set the clock of the machine meanwhile",
    ),
    "gpu_too_late": Loss(
        "dropped", "GPU records dated more than a minute after the recording", DAMAGED
    ),
    "cuda_call_without_thread": Loss(
        "unmatched", "CUDA calls of threads that are not in the trace"
    ),
    "gpu_without_process": Loss(
        "unmatched", "GPU records of processes that are not in the trace"
    ),
    "gpu_after_owner": Loss(
        "unmatched", "GPU records that begin after their thread or process ended", DAMAGED
    ),
    "gpu_other_clock": Loss(
        "unmatched", "GPU records of processes in a time namespace: their clock is not ours",
        OUTSIDE,
    ),
    "gpu_after_kill": Loss(
        "truncated", "GPU records after the last instant that is known of their process", KILLED
    ),
    "gpu_without_call": Loss("unmatched", "GPU activities whose call is not in the trace"),
    "gpu_without_call_late": Loss(
        "unmatched", "GPU activities whose call is not in the trace", _FROM_START
    ),
    "cuda_call_without_gpu": Loss(
        "unmatched",
        "CUDA calls whose GPU activity is not in the trace, or that a graph captured",
    ),
    "cuda_call_without_gpu_late": Loss(
        "unmatched",
        "CUDA calls whose GPU activity is not in the trace, or that a graph captured", _FROM_START,
    ),
    "gpu_name_cut": Loss("truncated", "names of GPU records longer than 1024 bytes: cut"),
    "gpu_reported_twice": Loss(
        "unmatched", "statuses and devices that a process reported more than once: kept once"
    ),
    "nvml_disk_full": Loss("dropped", "NVML readings: disk full", SPACE),
    "nvml_failed": Loss("dropped", "NVML readings that failed", _DRIVER),
    "nvml_damaged": Loss("dropped", "NVML readings: damaged lines"),
    "nvml_hung": Loss(
        "truncated", "NVML readings: the driver did not answer when the recording ended", _DRIVER
    ),
}  # fmt: skip
