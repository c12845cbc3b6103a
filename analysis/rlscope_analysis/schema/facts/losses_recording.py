"""Losses of every recording: rings, spool, thread states, calls and samples."""

from __future__ import annotations

from rlscope_analysis.schema.facts.loss import DAMAGED, KILLED, RING, SPACE, TRACERS, Calls, Loss

RECORDING = {
    "recorder_killed": Loss(
        "truncated", "the recording: its last 0.1 s at least", KILLED, Calls.PERHAPS
    ),
    "session_damaged": Loss("dropped", "facts of the session that cannot be read", DAMAGED),
    "counters_gone": Loss("dropped", "not known: the counters are gone", DAMAGED, Calls.PERHAPS),
    "ring_full": Loss(
        "dropped", "ring cpu {cpu} {record}", RING, Calls.LOST_IF_CALLS, was_hit=True
    ),
    "other_rings_full": Loss(
        "dropped", "rings of other CPUs {record}", RING, Calls.LOST_IF_CALLS, was_hit=True
    ),
    "spool_full": Loss("dropped", "spool {record}", SPACE, Calls.LOST_IF_CALLS, was_hit=True),
    "probe_runs_skipped": Loss("dropped", "probe runs that the OS kernel skipped", TRACERS),
    "filter_full": Loss(
        "dropped", "threads that the filter could not take",
        "attach earlier: it happens while very many threads are being created",
    ),
    "spool_cut": Loss(
        "truncated", "spool: {bytes} bytes after the last whole record", KILLED, Calls.PERHAPS
    ),
    "spool_damaged": Loss("dropped", "spool: damaged records", DAMAGED, Calls.PERHAPS),
    "spool_unknown": Loss(
        "dropped", "spool: records of a kind not known",
        "recover the spool with the rlscope-trace that recorded it", Calls.PERHAPS,
    ),
    "titles_too_many": Loss(
        "dropped", "titles beyond the first 2,097,152, or beyond 65,535 different ones",
        "keep the end of the recording only: --last 5m",
    ),
    "not_derived": Loss(
        "dropped", "{record}: it could not be worked out: {detail}",
        "report it: the rest of the trace is whole",
    ),
}  # fmt: skip
THREADS = {
    "thread_start_unseen": Loss(
        "unmatched", "threads without a start: in process (unknown)", RING
    ),
    "switch_in_unseen": Loss(
        "unmatched", "switch-ins not seen, see thread.lost_ns", TRACERS
    ),
    "wakeup_unseen": Loss(
        "unmatched", "wakeups not seen: run-queue latency counted as sleep", TRACERS
    ),
    "cycle_gap": Loss("unmatched", "cycles: gaps between them, see thread.lost_ns", RING),
    "cycle_overlap": Loss(
        "unmatched", "cycles that overlap or run backwards: cut", DAMAGED
    ),
    "thread_end_unseen": Loss(
        "unmatched", "threads without an end, see thread.lost_ns", RING
    ),
    "thread_cut": Loss("truncated", "threads alive when the recorder was killed", KILLED),
}  # fmt: skip
# What is in memory of another user's process is told by a file of that user's.
UNSEARCHED = "for native calls of a program of another user, record with CAP_DAC_READ_SEARCH, too"
CALLS = {
    "events_unreadable": Loss(
        "dropped", "calls and samples that cannot be read", DAMAGED, Calls.LOST
    ),
    "events_without_thread": Loss(
        "unmatched", "calls and samples of threads that are not in the trace"
    ),
    # Those of threads whose own records were still on their way.
    "events_without_thread_after_kill": Loss(
        "unmatched", "calls and samples of threads that are not in the trace", KILLED
    ),
    "instruments_failed": Loss(
        "dropped", "calls and Python functions: the recorder failed: {detail}",
        "report it; the rest of the trace is whole",
    ),
    "samples_unread": Loss(
        "dropped",
        "samples that were not read: the memory or a file of a sampled process did not answer",
        "keep programs that do not answer out of the trace: those with code on FUSE or NFS",
    ),
    "probe_notes_damaged": Loss("dropped", "notes of the probes", DAMAGED, Calls.PERHAPS),
    "functions_unsearched": Loss(
        "skipped", "functions in {mib} MiB of pid {pid} that were not searched", UNSEARCHED,
        Calls.PERHAPS,
    ),
    "more_functions_unsearched": Loss(
        "skipped", "functions in {mib} MiB of more processes that were not searched",
        UNSEARCHED, Calls.PERHAPS,
    ),
    "call_under_way": Loss(
        "unmatched", "returns of calls that were under way when their probe was attached"
    ),
    "call_too_deep": Loss(
        "dropped", "calls nested too deep in other recorded calls", calls=Calls.LOST, was_hit=True
    ),
    "call_abandoned": Loss(
        "unmatched",
        "calls that were under way when another function of their file was dropped",
        calls=Calls.PERHAPS,
    ),
    "call_in_signal_handler": Loss(
        "dropped", "calls in a signal handler that interrupted a recorded call", calls=Calls.LOST
    ),
    "call_without_memory": Loss(
        "dropped", "calls that there was no memory to remember", calls=Calls.LOST
    ),
    "call_probe_skipped": Loss(
        "dropped", "runs of call probes that the OS kernel skipped",
        "stop other tracers, if there are any", Calls.LOST,
    ),
    "os_counters_disk_full": Loss("dropped", "readings of the OS kernel: disk full", SPACE),
    "os_counters_damaged": Loss("dropped", "readings of the OS kernel: damaged lines", DAMAGED),
}  # fmt: skip
