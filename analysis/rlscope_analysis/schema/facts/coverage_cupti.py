"""What CUPTI recorded of a process, and why not: the codes of coverage that its shim reports."""

from __future__ import annotations

from rlscope_analysis.schema.facts.coverage_entry import Coverage, part

# Of a call that failed: {result} is what it returned, with its name, {meaning} what that means.
_FAILED = "{subject} -> {result} ({detail}){meaning}"
CUPTI = {
    "cupti": Coverage("CUPTI"),
    "cupti_late": Coverage("CUPTI, started late"),
    "cupti_silent_program": part("it was another program too, of which CUPTI did not tell"),
    "cupti_yielded": Coverage(
        "CUPTI is left to another profiler (torch.profiler, nsys): --cupti yield"
    ),
    "cupti_not_started": Coverage("CUPTI could not be started"),
    "cupti_no_driver": Coverage("no NVIDIA driver: libcuda.so.1 is not loaded"),
    "cuda_not_started": Coverage("CUDA had not been started when the recorder came to the process"),
    "cupti_not_found": Coverage(
        "no {subject} was found, neither loaded, nor beside the CUDA runtime, nor installed: pip"
        " install nvidia-cuda-cupti of the CUDA version that the program uses"
    ),
    "cupti_not_loaded": Coverage("RLSCOPE_CUPTI_LIBRARY: {subject}"),
    "cupti_lacks_function": Coverage("{detail} has no function {subject}"),
    "cupti_no_thread": Coverage(
        "no thread can be started to fetch the records: a limit of the process is in the way"
    ),
    "cupti_held": Coverage("another profiler (torch.profiler, nsys) holds CUPTI"),
    "cupti_held_by": Coverage('another profiler (torch.profiler, nsys) holds CUPTI: "{subject}"'),
    "cuda_not_initialised": Coverage("CUDA was not initialised, as far as the recorder heard"),
    "cupti_unheard": Coverage(
        "it called CUDA, but nothing was heard of CUPTI in it: CUDA loads the shim when it begins,"
        " where CUDA_INJECTION64_PATH names it"
    ),
    "program_replaced": part("not after it replaced its program, {since_s} s after the start"),
    "gpu_late": part("the process had run before: not what came until then"),
    "cupti_refused": part("CUPTI refused {subject}"),
    "no_kernels": Coverage("CUPTI records no kernels"),
    "cupti_held_records": part(
        "CUPTI still held records when it ended or was left: not the last 0.4 s, at most"
    ),
    "cupti_failed_in_part": part(_FAILED),
    "cupti_failed_to_read": part(
        f"perhaps nothing from {{since_s}} s after the start on: {_FAILED}"
    ),
    "cupti_refused_others": Coverage("CUPTI refused {subject}"),
    "graphs_whole": Coverage(
        "a CUDA graph is one activity: its kernels were not recorded one by one"
    ),
    "gpu_clock_converted": Coverage(
        "times converted from CUPTI's clock, to within {us} us (and {count} ppm before the first"
        " and after the last of its readings)"
    ),
    "gpu_clock_set": Coverage("that clock was set meanwhile"),
    "cupti_shared": Coverage(
        "another tool in the process uses CUPTI too: a buffer of its own came to us"
    ),
    "cupti_failed": Coverage(_FAILED),
}
# By what a call of CUPTI returns: its name, and what that means to a user.
_RESULTS = {
    1: ("INVALID_PARAMETER", ""),
    7: ("INVALID_OPERATION", ""),
    8: ("OUT_OF_MEMORY", "there is no memory left"),
    11: ("API_NOT_IMPLEMENTED", "this CUPTI does not have it"),
    14: ("NOT_COMPATIBLE", "it excludes something that is on already"),
    15: ("NOT_INITIALIZED", "CUPTI does not fit the driver, or the driver did not start"),
    21: ("INVALID_KIND", "this CUPTI does not have it"),
    26: ("HARDWARE_BUSY", "another tool uses the counters of the GPU"),
    27: ("NOT_SUPPORTED", "not on this GPU or platform"),
    33: ("VIRTUALIZED_DEVICE_NOT_SUPPORTED", "not on a virtual GPU"),
    35: (
        "INSUFFICIENT_PRIVILEGES",
        "the driver keeps profiling for root (NVreg_RestrictProfilingToAdminUsers)",
    ),
    36: ("OLD_PROFILER_API_INITIALIZED", "another profiler holds CUPTI"),
    38: ("LEGACY_PROFILER_NOT_SUPPORTED", ""),
    39: ("MULTIPLE_SUBSCRIBERS", "another profiler (torch.profiler, nsys) holds CUPTI"),
    40: (
        "VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES",
        "the host of this virtual GPU does not allow profiling",
    ),
    41: ("CONFIDENTIAL_COMPUTING_NOT_SUPPORTED", "not while confidential computing is on"),
    42: ("CMP_DEVICE_NOT_SUPPORTED", "not on this GPU"),
    43: ("MIG_DEVICE_NOT_SUPPORTED", "not on a MIG instance"),
    44: ("SLI_DEVICE_NOT_SUPPORTED", "not with SLI"),
    45: ("WSL_DEVICE_NOT_SUPPORTED", "not under WSL"),
    999: ("UNKNOWN", "CUPTI does not say why"),
}


def cupti_result(number: int) -> dict[str, str]:
    """Return the parameters `result` and `meaning` of a sentence about a call that failed."""
    name, meaning = _RESULTS.get(number, ("", ""))
    return {"result": f"{number} {name}".rstrip(), "meaning": meaning and f": {meaning}"}
