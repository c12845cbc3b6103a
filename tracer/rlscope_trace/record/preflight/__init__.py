"""What this machine can trace, and what is in the way: every finding, with its remedy."""

from rlscope_trace.record.preflight.finding import Finding, Level, sudo_command
from rlscope_trace.record.preflight.run import (
    explain_failure,
    run_checks,
    tracing_works,
    working_backend,
)

__all__ = [
    "Finding",
    "Level",
    "explain_failure",
    "run_checks",
    "sudo_command",
    "tracing_works",
    "working_backend",
]
