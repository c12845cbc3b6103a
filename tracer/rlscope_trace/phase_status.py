"""Why a Python has no phases: what `rlscope_phases.status` says, as a fact of coverage."""

from __future__ import annotations

from rlscope_analysis.schema.facts.fact import Fact

# The codes of cupti/python/rlscope_phases.
_CODES = {
    "other_python": "phases_other_python",
    "old_python": "phases_old_python",
    "free_threaded": "phases_free_threaded",
    "not_loaded": "phases_not_loaded",
    "native_not_loaded": "phases_native_not_loaded",
    "not_started": "phases_not_started",
    "no_tool": "phases_no_tool",
}


def absence_fact(status: str) -> Fact:
    """Return why there are no phases; of a status that is none of ours, what it says."""
    word, _, what = status.partition("\t")
    code = _CODES.get(word)
    if code is None:
        return Fact("phases_absent", detail=status)
    if code == "phases_other_python":
        return Fact(code, what)
    return Fact(code, detail=what or None)
