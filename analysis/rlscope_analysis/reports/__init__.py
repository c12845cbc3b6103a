"""The reports of `summarize --view`: one query each, in the .sql file of its name."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

from rlscope_analysis.result.column import Said
from rlscope_analysis.result.table import Pivot

# Stands in a query where a condition on its rows can.
_OF_OPERATION = "/* of_operation */"


@dataclass(frozen=True, slots=True)
class Report:
    """One question about a trace, and what the names of its columns do not say of them.

    Else units end the names: see result.column.unit_of.
    """

    name: str
    title: str
    additive: tuple[str, ...] = ()
    """Columns that a last line adds up: those of which every instant or event is in one row."""
    needs: tuple[str, ...] = ()
    """Kinds of record (see table coverage): without any of them there is no answer, and of each a
    note tells where it is lacking."""
    assumes: tuple[str, ...] = ()
    """Kinds of record that an assumption makes good: a note tells where it does."""
    pivot: Pivot | None = None
    error: str | None = None
    """Of a pivot: the column with the standard error of what it holds; 0: that is exact."""
    key: tuple[str, ...] = ()
    """Of a pivot: columns that tell lines apart which look the same; people do not see them."""
    hidden: tuple[str, ...] = ()
    """Columns that people do not see; CSV and JSON have them."""
    said: tuple[tuple[str, Said], ...] = ()
    """Columns that people see in other words than their values, and in which."""
    notes: tuple[tuple[str, str], ...] = ()
    """Columns of structs, and the code of the note of which they are the parameters."""
    needs_costs: bool = False
    """Whether there is no answer where nobody measured what recording costs."""
    by_iteration: bool = False
    """Whether it depends on what counts as an iteration."""
    operation: str | None = None
    """The one that it is about; None: all of them. Only where takes_operation."""

    @property
    def sql(self) -> str:
        """The query, of which only the rows of the operation are left."""
        query = report_sql(self.name)
        if self.operation is None:
            return query
        quoted = self.operation.replace("'", "''")
        return query.replace(_OF_OPERATION, f"QUALIFY operation = '{quoted}'")

    @property
    def takes_operation(self) -> bool:
        """Whether it can show one operation only: shares are of all operations even so."""
        return _OF_OPERATION in report_sql(self.name)


def report_sql(name: str) -> str:
    """Return the query in the .sql file of this name."""
    return resources.files(__name__).joinpath(f"{name}.sql").read_text(encoding="utf-8")


_NAME_OF_PROCESS = ("process", Said("no_name"))
_LAUNCHING_OPERATION = ("operation", Said("launching_operation"))
_FUNCTION = ("function", Said("function_or_none"))

BUCKETS = Pivot(
    "bucket",
    "time_ns",
    (
        "python", "simulator", "backend", "cuda_api", "spin", "other", "running", "runnable",
        "gil_wait", "gpu_wait", "io_wait", "sleeping", "lost", "unknown",
    ),
)  # fmt: skip
_RESOURCES = Pivot("resource", "time_ns", ("CPU", "CPU+GPU", "GPU", "none"))

# In the summary of everything only: `--by operation` tells all of it.
TOP_OPERATIONS = Report(
    "operation-top",
    "outermost operations with everything inside, in % of the lifetimes of the threads that have"
    " any; more: --by operation",
    additive=("time_ns", "share", "running_ns", "runnable_ns", "off_cpu_ns"),
)

REPORTS = {
    report.name: report
    for report in (
        Report(
            "limits",
            "what limits an iteration: each instant of the critical path under one heading, with"
            " 95 % intervals",
            additive=("time_ns", "share", "per_iteration_ns"),
            hidden=("code",),
            notes=(("what", "limit"),),
            by_iteration=True,
        ),
        Report(
            "findings",
            "what limits the iterations and can be helped, with the most that can be gained",
            hidden=("process_id", "of_path"),
            notes=(("what", "limit"),),
            by_iteration=True,
        ),
        Report(
            "phases",
            "what the leading thread did in the iterations but the first (of three or more), by"
            " phase",
            additive=("time_ns", "share"),
            by_iteration=True,
        ),
        Report(
            "processes",
            "what each process did in the iterations but the first (of three or more); queue,"
            " sleeps, and waits for another process: of its leading thread",
            hidden=("process_id", "is_titled"),
            by_iteration=True,
        ),
        Report(
            "bubbles",
            "what each process did in each phase of the leading one, by its leading thread, and how"
            " often the leading one waited for it last",
            hidden=("process_id",),
            needs=("thread_state",),
            by_iteration=True,
        ),
        Report(
            "critical-path",
            "critical path of the iterations but the first (of three or more): where it is, what"
            " takes the time, and for which limit it counts",
            additive=("time_ns", "share", "per_iteration_ns"),
            hidden=("process_id", "device_id", "by_kind"),
            said=(
                ("process", Said("process_or_gpu", ("device_id",))),
                ("layer", Said("layer_or_none")),
                ("cpu_had_by", Said("cpu_had_by", ("by_kind",), is_always_known=False)),
            ),
            by_iteration=True,
        ),
        Report(
            "breakdown",
            "process x operation x bucket over all threads, in ms and % of their lifetimes",
            pivot=BUCKETS,
            key=("process_id",),
            error="stderr_ns",
            hidden=("share", "gpu_busy_ns", "count", "sampled_ns"),
            said=(_NAME_OF_PROCESS,),
        ),
        Report(
            "corrected",
            "time on a CPU as measured, what recording cost, and what is left, with 95 % intervals",
            assumes=("thread_state",),
            hidden=("scope", "process_id"),
            said=tuple(
                (name, Said(f"{name}_of_scope", ("scope",)))
                for name in ("process", "operation", "bucket")
            ),
            needs_costs=True,
        ),
        Report(
            "overhead",
            "what recording cost the target, by kind of event, in CPU time, with 95 % intervals",
            additive=("overhead_ns", "share"),
            notes=(("quality", "quality"),),
            needs_costs=True,
        ),
        Report(
            "wall",
            "what recording cost in wall time, at least: what is exposed, the rest is hidden",
            additive=("overhead_ns", "exposed_ns", "under_gpu_ns", "other_threads_ns"),
            hidden=("process_id", "leading_thread_id", "leading_tid"),
            said=(
                _NAME_OF_PROCESS,
                ("leading_thread", Said("leading_thread", ("leading_tid",))),
            ),
            needs_costs=True,
        ),
        Report(
            "thread",
            "thread x bucket, in ms and % of its lifetime",
            pivot=BUCKETS,
            key=("thread_id",),
            error="stderr_ns",
            hidden=("share", "lifetime_ns", "sampled_ns"),
        ),
        Report(
            "operation",
            "operations of the threads that have any, one by one and as a tree",
            needs=("operation",),
            by_iteration=True,
        ),
        Report(
            "resource",
            "CPU, GPU, CPU+GPU by operation, in ms and % of the lifetimes of the threads with"
            " operations (of all threads, if none has any)",
            assumes=("thread_state",),
            pivot=_RESOURCES,
            hidden=("share", "count"),
            said=(("resource", Said("or_not_measured")),),
        ),
        Report(
            "layer",
            "what threads ran on a CPU: operation x layer, with and without a GPU at work",
            additive=("time_ns", "share", "count", "sampled_ns"),
            needs=("native_call", "cuda_call", "cpu_sample"),
            assumes=("thread_state",),
            said=(
                ("layer", Said("or_not_known")),
                ("resource", Said("resource_on_cpu")),
            ),
        ),
        Report(
            "transitions",
            "calls from one layer into another",
            additive=("count",),
            needs=("native_call", "cuda_call"),
            hidden=("process_id",),
            said=(("from_layer", Said("from_layer", ("counted",), is_always_known=False)),),
            notes=(("not_measured", "gap"),),
        ),
        Report(
            "blocked",
            "what threads waited for while sleeping or blocked",
            additive=("time_ns", "share", "count"),
            needs=("thread_state", "wait", "cuda_call"),
            said=(
                ("wait", Said("or_not_known")),
                ("inside", Said("layer_or_none")),
                ("state", Said("or_not_measured")),
            ),
        ),
        Report(
            "peer",
            "for whom threads waited at pipes and sockets, for one of several files, for a child",
            additive=("time_ns", "share", "count"),
            needs=("wait",),
            hidden=("process_id", "peer_kind", "peer_process_id"),
            said=(
                _NAME_OF_PROCESS,
                (
                    "waited_for",
                    Said("waited_for", ("process_id", "peer_kind", "peer_process_id")),
                ),
            ),
        ),
        Report(
            "gil",
            "waits for the GIL, and the threads that had it",
            additive=("waits", "time_ns", "share"),
            needs=("wait",),
            hidden=("process_id", "thread_id", "holder_tid", "holder_thread_id"),
            said=(("holder", Said("gil_holder", ("holder_tid",))),),
        ),
        Report(
            "functions",
            "Python functions by samples: self is innermost, with the native code it called",
            additive=("self_samples", "self_share"),
            needs=("cpu_sample",),
            said=(_FUNCTION,),
        ),
        Report(
            "path-functions",
            "Python functions on the critical path by samples, for each limit: self is innermost,"
            " with the native code it called",
            additive=("self_samples",),
            needs=("cpu_sample",),
            said=(_FUNCTION,),
            by_iteration=True,
        ),
        Report(
            "operation-functions",
            "innermost Python functions of each operation by samples, and what they ran",
            additive=("samples", "share"),
            needs=("cpu_sample",),
            said=(_FUNCTION, ("layer", Said("or_not_known"))),
        ),
        Report(
            "cpu",
            "who had the CPUs, and who waited for them",
            additive=("running_ns", "share", "cpus", "runnable_ns", "lifetime_ns"),
            needs=("thread_state",),
            hidden=("thread_id",),
        ),
        Report(
            "gpu",
            "GPU time in each scope: busy is the union of all that was under way",
            needs=("gpu_activity",),
            hidden=("process_id", "pid", "host", "device_id", "stream_id", "kind"),
            said=(
                (
                    "name",
                    Said(
                        "gpu_scope",
                        ("scope", "pid", "host", "device_id", "stream_id", "kind"),
                        label="what",
                    ),
                ),
            ),
        ),
        Report(
            "utilization",
            "what nvidia-smi says of each GPU, beside what ran on it; scope work: from the first to"
            " the last activity",
            needs=("counter", "gpu_activity"),
            hidden=("host", "device_id", "uuid", "kernel_ns", "busy_ns", "sum_ns"),
            said=(("name", Said("gpu", ("host", "device_id", "uuid"), label="gpu")),),
        ),
        Report(
            "kernel",
            "kernels by GPU time",
            additive=("instances", "sum_ns", "share"),
            needs=("gpu_activity",),
        ),
        Report(
            "launch",
            "GPU time by the operation that launched it, and by the one open when it began",
            additive=("launches", "launched_ns", "ran_ns"),
            needs=("gpu_activity",),
            said=(_LAUNCHING_OPERATION,),
        ),
        Report(
            "launch-functions",
            "Python functions that had GPUs work, by the samples that fell into their calls",
            additive=("samples", "share", "calls", "activities"),
            needs=("gpu_activity", "cpu_sample"),
        ),
        Report(
            "attribution",
            "GPU time by the operation that launched it, and by the one open while it ran",
            additive=(
                "activities",
                "launched_ns",
                "ran_ns",
                "kernels",
                "kernel_launched_ns",
                "kernel_ran_ns",
            ),
            needs=("gpu_activity",),
            hidden=("process_id",),
            said=(_LAUNCHING_OPERATION,),
        ),
        Report(
            "latency",
            "from the call to the start on the GPU, and from the return of the call (queue)",
            additive=("calls", "before_call"),
            needs=("gpu_activity",),
            hidden=("process_id", "mean_queue_ns"),
        ),
        Report(
            "gpu-idle",
            "what launching threads did while the GPUs of their process were idle, in ms and % of"
            " the idle time",
            pivot=BUCKETS,
            key=("process_id",),
            needs=("gpu_activity",),
            hidden=("share", "sampled_ns"),
            said=(_NAME_OF_PROCESS, _LAUNCHING_OPERATION, ("bucket", Said("or_not_known"))),
        ),
        Report(
            "idle",
            "gaps in the GPU work of each process, by what the launching thread did",
            additive=("gaps", "time_ns", "share", "unlaunched_ns"),
            needs=("gpu_activity",),
            said=(
                _LAUNCHING_OPERATION,
                ("cause", Said("or_not_known")),
                ("state", Said("or_not_known")),
            ),
        ),
        Report(
            "resource-overlap",
            "resources that worked for a process at once; no time is counted twice",
            additive=("time_ns", "share"),
            needs=("thread_state", "native_call", "cuda_call", "gpu_activity"),
            said=(("resources", Said("set_or_others")),),
        ),
        Report(
            "operation-overlap",
            "operations that were innermost at once, over all threads and processes",
            additive=("time_ns", "share"),
            needs=("operation",),
            said=(("operations", Said("set_or_others")),),
        ),
        Report(
            "process-overlap",
            "processes that worked at once, on a CPU or a GPU",
            additive=("time_ns", "share"),
            needs=("thread_state", "gpu_activity"),
            said=(("process_ids", Said("set_or_others")),),
        ),
    )
}
