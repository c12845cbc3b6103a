"""Losses of imported files."""

from __future__ import annotations

from rlscope_analysis.schema.facts.loss import Loss

# Of imported files. record: a kind of record, a table or a category of theirs.
IMPORTS = {
    "not_nested": Loss(
        "unmatched", "{record}s that are not properly nested: kept, inside the one opened last"
    ),
    "depth_cut": Loss("truncated", "{record}s nested deeper than 65535: depth cut"),
    "stacks_too_many": Loss(
        "dropped", "{record}s of more than 30,000 stacks, or in 1,000 others: left out"
    ),
    "text_cut": Loss("truncated", "texts longer than 65,536 characters: cut"),
    "names_too_many": Loss("dropped", "names: (other names) stands for them"),
    "kineto_file_cut": Loss(
        "truncated", "{record}: {detail}; what follows is not in the trace",
        "copy or export the file again",
    ),
    "kineto_skipped": Loss("skipped", "Kineto {detail}: {record}"),
    "kineto_skipped_uncategorised": Loss("skipped", "Kineto {detail}: without a category"),
    "kineto_further_categories": Loss("skipped", "Kineto events of further categories"),
    "kineto_threads_too_many": Loss(
        "dropped", "Kineto events of further processes, threads and streams: there are too many"
    ),
    "kineto_names_too_many": Loss(
        "dropped", "names of Kineto events: (other names) stands for them, there are too many"
    ),
    "owner_names_too_many": Loss(
        "dropped", "names of processes and threads: there are too many"
    ),
    "kineto_text_cut": Loss("truncated", "texts longer than 64 KiB: cut"),
    "kineto_unreadable": Loss(
        "dropped", "Kineto events without a readable time, duration or pid"
    ),
    "kineto_no_object": Loss("dropped", "Kineto events that are no objects"),
    "kineto_rounded": Loss("dropped", "digits below the nanosecond: times rounded"),
    "kineto_no_text": Loss("dropped", "bytes that are no text: replaced by U+FFFD"),
    "kineto_never_ended": Loss("truncated", "Kineto events that begin and never end"),
    "kineto_never_began": Loss("unmatched", "Kineto events that end and never began"),
    "kineto_gpu_without_call": Loss(
        "unmatched", "GPU activities whose call is not in the file: kept, without a launch",
        "start profiling a few steps before the one that counts",
    ),
    "kineto_clock_unknown": Loss(
        "unmatched", "files that do not tell the time of day: their times fit to no others",
        "export them with a PyTorch that writes baseTimeNanoseconds",
    ),
    "kineto_collectives_too_many": Loss(
        "dropped", "kernels of further collectives: there are too many"
    ),
    "kineto_collective_incomplete": Loss(
        "unmatched", "collectives of which ranks are missing", "import the files of all ranks"
    ),
    "kineto_collective_ambiguous": Loss(
        "unmatched",
        "collectives whose sequence number is used again: which belong together is not known",
    ),
    "kineto_collective_clocks": Loss(
        "unmatched",
        "collectives of ranks whose clocks may differ: who was last is not known",
    ),
    "kineto_collective_backward": Loss(
        "unmatched",
        "collectives that one rank ended before another began: their clocks differ",
    ),
    "nsys_half": Loss(
        "unmatched", "rows of {record} without an end after their start: left out",
        "export it once more, or record it once more",
    ),
    "nsys_gpu_without_call": Loss(
        "unmatched", "GPU activities without the call that caused them: kept",
        "record the calls, too: nsys profile --trace=cuda",
    ),
    "nsys_table_skipped": Loss("skipped", "rows of {record}"),
    "nsys_tables_skipped": Loss("skipped", "rows of more tables"),
    "nsys_rows_too_many": Loss("dropped", "names and rows of descriptions: too many"),
    "nsys_range_open": Loss(
        "truncated", "NVTX ranges still open at the end: they end with the trace"
    ),
    "nsys_marks_skipped": Loss("skipped", "NVTX marks: they have no duration"),
    "nsys_events_skipped": Loss("skipped", "NVTX events of type {record}"),
    "nsys_switch_alone": Loss(
        "unmatched", "context switches without their other half: the time between is lost"
    ),
    "nsys_states_unreported": Loss(
        "skipped", "rows of {record} of processes whose states they do not tell",
        "record thread states with rlscope-trace",
    ),
    "xplane_instants": Loss("skipped", "events of the JAX profiler without a duration"),
    "xplane_skipped": Loss("skipped", "events of {record}"),
    "xplane_unreadable": Loss("dropped", "events of the JAX profiler without a possible time"),
    "xplane_threads_too_many": Loss("dropped", "threads and streams: there are too many"),
    "xplane_programs_cut": Loss(
        "truncated", "programs of XLA that are too many or too big: phases are missing in them"
    ),
    "xplane_profiler": Loss("dropped", "{record}: the JAX profiler says: {detail}"),
}  # fmt: skip
