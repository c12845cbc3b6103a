"""What a trace lacks: the codes of trace_stat.

A new loss is one entry in one of the tables below, and one TraceStat where it is counted.
Parameters of the sentences: cpu, record, pid, bytes, detail as in trace_stat; mib, more_mib: its
bytes, and twice as much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.schema.facts.losses_gpu import GPU
from rlscope_analysis.schema.facts.losses_imports import IMPORTS
from rlscope_analysis.schema.facts.losses_operations import OPERATIONS
from rlscope_analysis.schema.facts.losses_recording import CALLS, RECORDING, THREADS

if TYPE_CHECKING:
    from rlscope_analysis.schema.facts.loss import Loss

LOSSES: dict[str, Loss] = {**RECORDING, **THREADS, **CALLS, **OPERATIONS, **GPU, **IMPORTS}
