"""The catalogue: what can limit an iteration, one entry per code.

The order is that of the rules: a piece of the critical path counts for the first whose rule holds.
docs/findings.md is made from it.
"""

from __future__ import annotations

from dataclasses import dataclass

# What takes less than this of the critical path is not worth advice.
_LEAST = 0.02
# A phase limits the iterations where it takes this much: some phase is always the largest.
_BOUND = 0.4
# The program that records, or another that does.
_RECORDER = "rlscope-trace"
# Parts of the life of the process, which a short recording makes larger than they are.
_WORKER_START, _START = 0.3, 0.9


@dataclass(frozen=True, slots=True)
class Limit:
    """One code: its rule, what it means, and what helps."""

    code: str
    rule: str | None
    """SQL over a piece of the critical path: findings/pieces.sql has the columns. None: it takes
    its part of the time of others, in findings/shares.sql."""
    what: str
    """What takes the time; the subject is who has it."""
    remedy: str | None = None
    """What helps; see `advice`."""
    evidence: str = ""
    """A query that shows it: `rlscope-trace sql TRACE "..."`."""
    least_share: float | None = None
    """It is a finding from this share of the critical path on, less what programs outside the trace
    took of it; None: it is none."""
    least_of_life: float | None = None
    """The same of what comes before the first iteration, as a part of the life of the leading
    process."""
    proof: str = "--view critical-path"
    """Options of `summarize` that show more of it."""
    is_of_lead: bool = False
    """The leading process has it, whoever the path is in meanwhile: it waits for them."""
    tells_waiter: bool = False
    """`what` says that others wait for it."""
    is_gain: bool = False
    """Its share is what iterations could be shorter by, and not how long they are in it."""
    may_be_of_function: bool = False
    """It may be one of several causes that one function of the program holds iterations up by."""

    def advice(self, *, by_program: str | None = None, is_beside_idle: bool = False) -> str | None:
        """Return what helps, in words for where it holds."""
        if is_beside_idle:
            return "pin them to different CPUs: taskset, affinity"
        if by_program == _RECORDER:
            return "the recorder has it: docs/cost.md"
        return self.remedy and self.remedy.format(by_program=by_program or "that program")


def _grouped(columns: str, condition: str) -> str:
    return (
        f"SELECT {columns}, sum(duration_ns) / 1e6 AS ms FROM critical_path"  # noqa: S608 - our own
        f" WHERE {condition} GROUP BY ALL ORDER BY ms DESC"
    )


def _pieces(code: str, columns: str = "process_id, operation, cause") -> str:
    return (
        f"SELECT {columns}, sum(duration_ns) / 1e6 AS ms FROM limit_piece"  # noqa: S608 - our own
        f" WHERE code = '{code}' GROUP BY ALL ORDER BY ms DESC"
    )


_FUNCTIONS = (
    "SELECT s.leaf, count(*) AS samples FROM limit_piece AS p JOIN cpu_sample AS c"
    " ON c.thread_id = p.thread_id AND c.ts_ns >= p.start_ns AND c.ts_ns < p.end_ns"
    " JOIN stack AS s USING (stack_id) WHERE p.code = '{code}' GROUP BY ALL ORDER BY samples DESC"
)


_STARTING = "is_starting AND cause NOT IN ('cpu_taken_by_other', 'cgroup_quota')"

CATALOG = (
    Limit(
        "lost",
        "cause = 'lost'",
        "has no records: they were lost",
        "record again with a larger --ring",
        "SELECT kind, code, count FROM trace_stat",
    ),
    Limit(
        "worker_start_up",
        f"{_STARTING} AND is_lead IS NOT TRUE",
        "waits for processes that start (imports, environments) or end",
        "start workers once; import less in them",
        "SELECT p.process_id, p.name, (SELECT min(o.start_ns) FROM operation AS o"
        " WHERE o.process_id = p.process_id) - p.start_ns AS until_operation_ns,"
        " p.end_ns - p.start_ns AS life_ns FROM process AS p ORDER BY ALL",
        _LEAST,
        least_of_life=_WORKER_START,
        proof="--view functions",
        is_of_lead=True,
    ),
    Limit(
        "start_up",
        # Only of a run in which no iteration was found: the others are told apart from their start.
        f"{_STARTING} AND is_lead",
        "starts: imports, models and environments, before the first phase",
        "import less; cache what is built and compiled",
        "SELECT process_id, operation, sum(duration_ns) / 1e6 AS ms FROM limit_piece"
        " WHERE code = 'start_up' GROUP BY ALL"
        " UNION ALL SELECT i.process_id, '(start-up)', (min(i.start_ns) - min(p.start_ns)) / 1e6"
        " FROM iteration AS i JOIN process AS p ON p.process_id = i.process_id"
        " WHERE i.source <> 'whole' AND NOT EXISTS (FROM coverage WHERE code = 'kept_last')"
        " GROUP BY ALL",
        0.3,
        least_of_life=_START,
        proof="--view functions",
    ),
    Limit(
        "gil_contention",
        # In a worker it is one thread of it that hands over what another one makes. Of two threads
        # in Python the one that has the CPU has the GIL, too.
        "(cause = 'gil' AND is_lead)"
        " OR (cause = 'cpu_taken' AND cpu_had_by_own_process AND both_in_python)",
        "waits for the GIL while another thread has it",
        "move the other thread's work into a process",
        _grouped("thread_id AS has_it, waiter_thread_id AS waits, operation", "cause = 'gil'"),
        _LEAST,
        proof="--view gil",
        may_be_of_function=True,
    ),
    Limit(
        "spin_oversubscribed",
        # Two threads that Python started have work of their own.
        "(cause = 'cpu_taken' AND cpu_had_by_own_process AND NOT both_of_python)"
        " OR (cause = 'cpu_taken' AND cpu_had_by_spinner)"
        " OR (cause = 'running' AND sampled_layer = 'spin' AND NOT team_works)"
        # They wake each other up, and are put to sleep, again and again.
        " OR (is_of_large_team AND (cause = 'cpu_wait' OR coalesce(sampled_in_kernel, false)))",
        "has more threads than CPUs: they spin, or take the CPUs of each other",
        "OMP_NUM_THREADS=1, torch.set_num_threads(1)",
        _pieces("spin_oversubscribed", "process_id, thread_id, cause"),
        _LEAST,
        may_be_of_function=True,
    ),
    Limit(
        "cpu_contention",
        "cause = 'cpu_taken'",
        "waits for a CPU that another process or thread of the program has",
        "fewer processes and threads, or more CPUs",
        _grouped("process_id, thread_id, by_thread_id", "cause = 'cpu_taken'"),
        _LEAST,
        may_be_of_function=True,
    ),
    Limit(
        "cpu_taken_by_others",
        "cause = 'cpu_taken_by_other'",
        "waits for a CPU that a program outside of the trace has",
        "stop {by_program}, or give this one own CPUs",
        _grouped("by_program, by_program_pid, process_id", "cause = 'cpu_taken_by_other'"),
        _LEAST,
    ),
    Limit(
        "cgroup_throttled",
        # Waits of which the capture cannot tell: meanwhile its cgroup was stopped.
        "cause = 'cgroup_quota' OR is_throttled",
        "may not run: the CPU quota of its cgroup is used up",
        "raise the CPU limit of the container",
        "SELECT cgroup, name, max(value) - min(value) AS grown FROM os_counter"
        " WHERE name LIKE 'quota%' GROUP BY ALL ORDER BY ALL",
        _LEAST,
    ),
    Limit(
        "cpu_wait",
        "cause = 'cpu_wait' AND NOT is_after_disk",
        "waits for a CPU that nobody is known to have: it wakes up, or others were not recorded",
        "see what else runs (top), and the CPU quota",
        "SELECT p.name, c.operation, sum(c.duration_ns) / 1e6 AS ms FROM critical_path AS c"
        " JOIN process AS p USING (process_id) WHERE c.cause = 'cpu_wait' GROUP BY ALL",
        0.1,
        may_be_of_function=True,
    ),
    Limit(
        "timer_sleep",
        "cause = 'timer'",
        "sleeps, or waits until a timeout",
        "wait for events instead; no sleeps, no frame limit",
        _grouped("process_id, thread_id, operation", "cause = 'timer'"),
        _LEAST,
        may_be_of_function=True,
    ),
    Limit(
        "blocking_io",
        # A page of a file that is read where it is touched: memory is not short. Without the wait
        # nobody would have to wake up from it.
        "cause = 'disk' OR is_for_disk OR is_after_disk"
        " OR (reads_pages AND NOT memory_is_short)",
        "reads or writes files: waits for a disk, or is in the OS kernel for it",
        "in the background, less often; no fsync; cache it",
        _grouped("process_id, thread_id, operation", "cause = 'disk'"),
        _LEAST,
        may_be_of_function=True,
    ),
    Limit(
        "memory_pressure",
        # Where nothing says whether memory is short it is not known to be another wait.
        "cause = 'blocked' AND memory_is_short IS DISTINCT FROM false",
        "waits for memory: it is short, and pages are read again or written away",
        "less memory per process, fewer workers",
        "SELECT scope, process_id, cgroup, name, max(value) - min(value) AS grown FROM os_counter"
        " WHERE name LIKE 'memory%' OR name LIKE 'swap%' OR name = 'major_faults'"
        " GROUP BY ALL ORDER BY ALL",
        0.05,
    ),
    Limit(
        "os_wait",
        "cause = 'blocked'",
        "is held by the OS kernel, and memory is not short: its own locks, mapping of memory",
        "reuse buffers; fewer threads that map memory",
        _grouped("process_id, thread_id, operation", "cause = 'blocked'"),
        0.05,
        may_be_of_function=True,
    ),
    Limit(
        "lock_contention",
        "cause = 'lock' OR is_locked OR (wait = 'lock' AND waiter_process_id <> process_id"
        " AND NOT is_handed_over"
        " AND coalesce(phase, '') NOT IN ('simulation', 'inference', 'data'))",
        "waits for a lock that another thread or process has",
        "hold it shorter, or have more than one",
        _pieces("lock_contention", "process_id, thread_id, operation, cause"),
        _LEAST,
        is_of_lead=True,
        may_be_of_function=True,
    ),
    Limit(
        "collective_wait",
        "is_collective OR (cause IN ('network', 'device') AND phase = 'backpropagation')"
        " OR (learns AND NOT is_lead AND lead_learns)",
        "waits for other ranks in a collective operation",
        "equal work for all ranks; overlap communication",
        _pieces("collective_wait"),
        _LEAST,
        is_of_lead=True,
    ),
    Limit(
        "copy_bound",
        "is_copy",
        "waits for copies to or from the GPU, or makes them",
        "keep data on the GPU; pinned memory; copy ahead",
        _grouped("gpu_kind, gpu_name, operation", "gpu_kind IN ('memcpy', 'memset')"),
        0.1,
        proof="--view gpu",
        is_of_lead=True,
    ),
    Limit(
        "gpu_bound",
        "cause IN ('gpu', 'gpu_queue', 'gpu_wait')",
        "waits for work of the GPU",
        "lower precision, fused kernels, a faster GPU",
        "SELECT name, count(*) AS kernels, sum(duration_ns) / 1e6 AS ms FROM gpu_activity"
        " GROUP BY ALL ORDER BY ms DESC",
        _BOUND,
        proof="--view kernel",
        is_of_lead=True,
    ),
    Limit(
        "gpu_throttled",
        None,
        "waits for a GPU whose clock power or heat holds down",
        "better cooling, or a higher power limit",
        "SELECT uuid, (value::BIGINT & 236) <> 0 AS is_held_down, count(*) AS readings FROM counter"
        " WHERE name = 'throttle_reasons' GROUP BY ALL ORDER BY ALL",
        _LEAST,
        proof="--view gpu",
        is_of_lead=True,
    ),
    Limit(
        "sync_in_step",
        "cause = 'sync' OR (is_launching AND queue_is_empty AND syncs_often)",
        "waits for the GPU again and again, so that the two take turns",
        "no .item(), .cpu(), synchronize() in the loop",
        "SELECT name, count(*) AS calls, sum(duration_ns) / 1e6 AS ms FROM cuda_call"
        " WHERE name LIKE '%ynchronize%' OR name LIKE '%emcpy%' GROUP BY ALL ORDER BY ms DESC",
        _LEAST,
        proof="--view idle",
    ),
    Limit(
        "launch_bound",
        "cause = 'launch_latency' OR (is_launching AND queue_is_empty)",
        "launches work that the GPU has done before the next is there",
        "torch.compile, CUDA graphs, larger batches",
        "SELECT call_name, count(*) AS launches, avg(queue_ns) / 1e3 AS queue_us FROM launch"
        " GROUP BY ALL ORDER BY launches DESC",
        _LEAST,
        proof="--view launch",
    ),
    Limit(
        "cuda_calls",
        "layer = 'cuda_api'",
        "is in calls of CUDA: allocations, copies, launches, initialization",
        "allocate once; pinned memory; fewer copies",
        "SELECT name, count(*) AS calls, sum(duration_ns) / 1e6 AS ms FROM cuda_call"
        " GROUP BY ALL ORDER BY ms DESC",
        0.1,
        proof="--view launch",
    ),
    Limit(
        "network_wait",
        "cause IN ('network', 'device')",
        "waits for data from a socket or a device: nobody in the trace sent it",
        "ask ahead; several at once; pipes on one machine",
        _grouped("process_id, thread_id, operation, cause", "cause IN ('network', 'device')"),
        _LEAST,
        may_be_of_function=True,
    ),
    Limit(
        "outside_wait",
        "cause = 'outside'",
        "waits for a program outside of the trace",
        "trace that program too: start both by one command",
        _grouped("process_id, thread_id, operation", "cause = 'outside'"),
        _LEAST,
        may_be_of_function=True,
    ),
    Limit(
        "timer_or_device",
        "cause = 'interrupt'",
        "waits until a timer or a device wakes it: which is not known",
        "see what is waited for: a poll with a timeout?",
        _grouped("process_id, thread_id, operation", "cause = 'interrupt'"),
        0.1,
        may_be_of_function=True,
    ),
    Limit(
        "other_wait",
        "cause NOT IN ('running', 'not_measured', 'gil')",
        "waits for something else",
        may_be_of_function=True,
    ),
    Limit(
        "polling",
        "is_lead AND is_asking AND cause = 'running' AND (phase = 'wait' OR phase IS NULL)",
        "asks again and again whether a message has come, and does nothing else",
        "block in recv(); --messages all tells for whom",
        _pieces("polling"),
        _LEAST,
        proof="--view operation",
        may_be_of_function=True,
    ),
    Limit(
        "message_overhead",
        "(is_lead AND has_workers AND phase = 'simulation' AND layer IS DISTINCT FROM 'simulator')"
        # What a worker marks with a name of its own, such as a method of an actor, is not that.
        " OR (NOT is_lead AND simulates AND phase IS NULL AND NOT is_marked AND NOT is_own_code)"
        # In its phase `wait` it hands over and takes: where it runs there, it packs and unpacks.
        " OR (is_lead AND phase = 'wait' AND cause = 'running')"
        # In no phase, but in multiprocessing.
        " OR (cause = 'running' AND phase IS NULL AND is_message)",
        "packs, sends, receives and unpacks messages between processes",
        "one process for all, or batches, or shared memory",
        _pieces("message_overhead"),
        _LEAST,
        proof="--view path-functions",
        may_be_of_function=True,
    ),
    Limit(
        "straggler",
        None,
        "is waited for while the other workers have finished",
        "equal work for all workers, or asynchronous ones",
        "SELECT process_id, sum(running_ns) / 1e6 AS ms FROM thread_time"
        " GROUP BY ALL ORDER BY ms DESC",
        _LEAST,
        proof="--view bubbles",
        tells_waiter=True,
        is_gain=True,
    ),
    Limit(
        "idle_workers",
        None,
        "works while other workers wait for their turn",
        "start all workers before waiting for any",
        "SELECT process_id, sum(running_ns) / 1e6 AS ms FROM thread_time"
        " GROUP BY ALL ORDER BY ms DESC",
        _LEAST,
        proof="--view bubbles",
        is_gain=True,
    ),
    Limit(
        "evaluation_bound",
        "is_evaluating AND is_lead",
        "evaluates the policy",
        "less often, fewer episodes, or in another process",
        _FUNCTIONS.format(code="evaluation_bound"),
        _LEAST,
        proof="--view path-functions",
    ),
    Limit(
        "serial_simulation",
        "phase = 'simulation' AND is_lead",
        "runs the environment itself, and nothing beside",
        "a faster environment, or worker processes",
        _FUNCTIONS.format(code="serial_simulation"),
        _BOUND,
        proof="--view path-functions",
    ),
    Limit(
        "simulation_bound",
        "phase = 'simulation'",
        "runs environments, which the learner waits for",
        "more workers and CPUs, or a faster environment",
        _pieces("simulation_bound"),
        _BOUND,
        proof="--view path-functions",
        tells_waiter=True,
    ),
    Limit(
        "inference_bound",
        "phase = 'inference'",
        "asks the policy for actions",
        "larger batches of observations, a smaller policy",
        _FUNCTIONS.format(code="inference_bound"),
        _BOUND,
        proof="--view path-functions",
    ),
    Limit(
        "learner_bound",
        "phase = 'backpropagation'",
        "updates the model",
        "fewer epochs, larger minibatches, torch.compile",
        _FUNCTIONS.format(code="learner_bound"),
        _BOUND,
        proof="--view path-functions",
    ),
    Limit(
        "data_bound",
        "phase = 'data'",
        "handles samples: buffers, returns, advantages",
        "vectorize it, or do it in workers",
        _FUNCTIONS.format(code="data_bound"),
        0.2,
        proof="--view path-functions",
        may_be_of_function=True,
    ),
    Limit(
        "checkpoint_bound",
        "phase = 'checkpoint'",
        "saves the model, beside waits for the disk",
        "save less often, or in the background",
        _FUNCTIONS.format(code="checkpoint_bound"),
        _LEAST,
        proof="--view path-functions",
    ),
    Limit(
        "worker_bound",
        "NOT is_lead",
        "runs code that the leading process waits for",
        "more workers, or less for them to do",
        _FUNCTIONS.format(code="worker_bound"),
        0.2,
        proof="--view path-functions",
        tells_waiter=True,
        may_be_of_function=True,
    ),
    Limit(
        "thread_bound",
        "NOT leads AND of_python",
        "waits for code that another thread of its own runs",
        "less for it to do, or a process of its own",
        _FUNCTIONS.format(code="thread_bound"),
        _BOUND,
        proof="--view path-functions",
        tells_waiter=True,
        may_be_of_function=True,
    ),
    Limit(
        "not_measured",
        "cause = 'not_measured'",
        "ran or waited: which of them was not recorded",
    ),
    Limit(
        "os_kernel",
        "sampled_in_kernel AND phase IS NULL",
        "is in the OS kernel: page faults, memory, system calls",
        "reuse buffers; fewer and larger system calls",
        _FUNCTIONS.format(code="os_kernel"),
        0.1,
        proof="--view path-functions",
        may_be_of_function=True,
    ),
    Limit(
        "python_overhead",
        "sampled_layer = 'python'",
        "runs Python code that is in no phase",
        "do less of it; vectorize it with numpy or torch",
        _FUNCTIONS.format(code="python_overhead"),
        0.05,
        proof="--view path-functions",
        may_be_of_function=True,
    ),
    Limit(
        "native_code",
        "sampled_layer IN ('backend', 'other')",
        "runs native code that is in no phase",
        "fewer, larger calls; copy less; mark the phase",
        _FUNCTIONS.format(code="native_code"),
        0.1,
        proof="--view path-functions",
        may_be_of_function=True,
    ),
    Limit("other_code", "true", "runs code that is in no phase", may_be_of_function=True),
    Limit(
        "one_function",
        None,
        "is in one function that neither acts nor learns",
        "call it less often, in batches, or ahead of time",
        "SELECT function, code, sum(time_ns) / 1e6 AS ms FROM limit_function"
        " GROUP BY ALL ORDER BY ms DESC",
        _LEAST,
        proof="--view path-functions",
        is_of_lead=True,
    ),
)  # fmt: skip
"""Every code: what a screen lists, and what counts the pieces."""

BY_CODE = {limit.code: limit for limit in CATALOG}
BY_FUNCTION = tuple(limit.code for limit in CATALOG if limit.may_be_of_function)
"""What one function of the program may hold iterations up by."""
BY_OTHERS = (
    "lost", "worker_start_up", "start_up", "cpu_taken_by_others", "cgroup_throttled",
    "memory_pressure", "not_measured",
)  # fmt: skip
"""What is no matter of what the program does at the time."""
