"""Why CUPTI did not record a process, or not all of it: a fact out of what its shim reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlscope_analysis.schema.facts.fact import Fact
from rlscope_trace.ingest.store.gpu_devices import int32

if TYPE_CHECKING:
    from collections.abc import Mapping

# As records.h numbers them: enum rls_shim_gpu_why.
_NOT_ASKED, _LIBRARY_LACKS, _CALL_FAILED, _HELD = 1, 7, 10, 11
_CODES = {
    2: "cupti_yielded", 3: "cupti_no_driver", 4: "cuda_not_started", 5: "cupti_not_found",
    6: "cupti_not_loaded", 8: "cupti_no_thread", 9: "cupti_shared",
}  # fmt: skip


def reason_of(status: Mapping[str, Any]) -> Fact | None:
    """Return the reason of a status; None: it has none, or one that this version does not know."""
    why, subject = status["why"], status["subject"]
    if why == _NOT_ASKED:
        return Fact("not_asked_for", "--cupti off")
    if why == _LIBRARY_LACKS:
        return Fact("cupti_lacks_function", subject, status["library"])
    if why == _CALL_FAILED:
        return failure(status, "cupti_failed")
    if why == _HELD:
        return Fact("cupti_held_by", subject) if subject else Fact("cupti_held")
    return Fact(_CODES[why], subject) if why in _CODES else None


def failed_call(status: Mapping[str, Any]) -> str | None:
    """Return the call of CUPTI that failed, without its argument; None: none did."""
    if status["why"] != _CALL_FAILED or not status["subject"]:
        return None
    name: str = status["subject"].partition("(")[0]
    return name


def failure(status: Mapping[str, Any], code: str) -> Fact:
    """Return a call of CUPTI that failed, as a fact of this code."""
    library = (status["library"] or "").rpartition("/")[2]
    return Fact(code, status["subject"], f"{library} api {status['api']}", int32(status["code"]))
