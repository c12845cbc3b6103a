"""Losses of operations: what the shim, or the program that marked them, left out."""

from __future__ import annotations

from rlscope_analysis.schema.facts.loss import DAMAGED, KILLED, OUTSIDE, SPACE, Loss

_FEWER_RANGES = "mark fewer ranges: the recorder could not keep up with their rate"
_FEWER_NAMES = "give operations of one sort one name: put numbers into the payload"
_BALANCE = "let every push have its pop, on the same thread and in the same domain"
OPERATIONS = {
    "operation_ring_full": Loss(
        "dropped", "operations: the ring of a thread was full", _FEWER_RANGES
    ),
    "operation_rings_used_up": Loss(
        "dropped", "operations: more threads at once than a process has rings (126)",
        "mark ranges on fewer threads",
    ),
    "fork_without_memory": Loss(
        "dropped", "operations of forked processes: no memory could be shared with them",
        "the program set a seccomp filter, or a limit (ulimit -f, -v), before",
    ),
    "operation_names_dropped": Loss(
        "dropped", "names of operations: reported again later, unless the ring stayed full",
        _FEWER_RANGES,
    ),
    "operation_in_signal_handler": Loss(
        "dropped", "operations marked by a signal handler that interrupted another one",
        "mark no ranges in signal handlers",
    ),
    "operation_too_deep": Loss(
        "dropped", "operations nested deeper than 64", "mark the outer levels only"
    ),
    "operations_damaged": Loss("dropped", "operations: damaged records", DAMAGED),
    "operation_too_late": Loss(
        "dropped", "operations dated more than a minute after the end of their thread", DAMAGED
    ),
    "marks_too_many": Loss(
        "dropped", "marks and start/end ranges beyond the first million, or under way at once",
        "mark less often",
    ),
    "names_reported_too_often": Loss(
        "dropped",
        "names of threads and processes beyond the first 131,072 of each, and failures of adapters"
        " beyond the first 65,536",
        "name threads once: a name that changes all the time says nothing",
    ),
    "operations_rate_limited": Loss(
        "rate-limited", "operations: a process wrote more than {mib} MiB/s for long",
        _FEWER_RANGES,
    ),
    "operations_disk_full": Loss("dropped", "operations: no room on the disk", SPACE),
    "operation_ring_overwritten": Loss(
        "dropped", "operations: a ring could not be read: the program wrote over it",
        "look for a defect of the program that overwrites memory",
    ),
    "processes_too_many": Loss(
        "dropped",
        "operations: processes beyond those that are read at a time, or programs that a process"
        " became",
        "trace fewer processes at once: --pid",
    ),
    "pop_unbalanced": Loss("unmatched", "pops of ranges that were not open", _BALANCE),
    "range_end_alone": Loss(
        "unmatched", "ends of start/end ranges whose start is not in the trace"
    ),
    "range_on_two_threads": Loss(
        "unmatched", "start/end ranges that ended on another thread: kept, in async_range"
    ),
    "operation_without_thread": Loss(
        "unmatched", "operations of threads that are not in the trace"
    ),
    "operation_other_clock": Loss(
        "unmatched", "operations of processes in a time namespace: their clock is not ours",
        OUTSIDE,
    ),
    "operation_not_nested": Loss(
        "unmatched", "operations that are not properly nested: kept, inside the one opened last",
        _BALANCE,
    ),
    "operation_began_before": Loss(
        "truncated", "operations that began before the recording: cut at its start"
    ),
    "operation_open_at_end": Loss(
        "truncated", "operations still open when their thread or the recording ended: cut there"
    ),
    "operation_after_kill": Loss(
        "truncated", "operations after the last instant that is known of their thread", KILLED
    ),
    "range_never_ended": Loss(
        "truncated", "start/end ranges never ended: cut at the end of the process or recording"
    ),
    "operation_name_cut": Loss("truncated", "names of operations longer than 1024 bytes: cut"),
    "operation_names_folded": Loss(
        "truncated", "names of operations beyond the first 32,768: without their numbers",
        _FEWER_NAMES,
    ),
    "operation_unnamed": Loss(
        "truncated", "operations without a name: there are too many names", _FEWER_NAMES
    ),
    "operation_paths_too_many": Loss(
        "truncated", "operations in too many different others: kept, outside of them",
        _FEWER_NAMES,
    ),
    "operation_block_cut": Loss(
        "truncated", "operations: a block was not written to its end", KILLED
    ),
}  # fmt: skip
