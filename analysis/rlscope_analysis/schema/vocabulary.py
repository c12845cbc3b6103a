"""The words and codes that the writers and the readers of a trace database must agree on."""

# The newest schema: raised by a change of what exists, not by additions.
SCHEMA_VERSION = 6

# By code, as are all below. lost: of an instant of a thread, not of an interval that was recorded.
THREAD_STATES = ("running", "runnable", "sleeping", "blocked", "lost")
# Of the sweep: "nobody measured this", of states and of the GPU alike.
NOT_MEASURED = 255

# Who began a runnable interval; None: nobody, it was preempted.
WAKER_KINDS = (None, "thread", "interrupt", "outside", "unknown", "timer", "device")
WAKER_THREAD = WAKER_KINDS[1]

# Code 0 of a layer or wait: none is known.
LAYERS = (None, "python", "simulator", "backend", "cuda_api", "spin", "other")
# How a call ended; open: the trace did before.
CALL_OUTCOMES = ("returned", "unwound", "open")
WAITS = (None, "gil", "gpu", "io", "lock", "pipe", "socket", "sleep", "poll", "process")
CUDA_CALL_KINDS = ("other", "launch", "memcpy", "memset", "sync", "memory", "graph")
# A stream that waits (sync) is listed, but the GPU does not work meanwhile.
GPU_ACTIVITY_KINDS = (None, "kernel", "memcpy", "memset", "graph", "sync")
# Of which samples the shares of the layers are: layer_estimate_coded.method.
ESTIMATE_METHODS = (None, "own", "path", "operation", "thread", "process")
# critical_path.cause: docs/critical_path.md.
CAUSES = (
    "unknown", "running", "cpu_taken", "cpu_wait", "timer", "interrupt", "network", "disk",
    "blocked", "outside", "gil", "lock", "waiting", "gpu", "launch_latency", "gpu_queue", "sync",
    "gpu_wait", "lost", "before_trace", "not_measured", "cpu_taken_by_other", "cgroup_quota",
    "device",
)  # fmt: skip

# Kinds of table coverage that tell of one layer of native_call.
LAYER_COVERAGE = "native_call:{layer}"

# The operation that owns the time when none is open.
UNANNOTATED = "(unannotated)"
# The phase of what is in none.
NO_PHASE = "(no phase)"
# The same, while the thread sleeps.
WAITING = "(waiting)"
# What people call an iteration of their training loop.
ITERATION_NAMES = ("iteration", "step", "update", "epoch")
ANY_ITERATION_NAME = f"{', '.join(ITERATION_NAMES[:-1])} or {ITERATION_NAMES[-1]}"
# The operation that owns the time of which operations were dropped, and its source.
LOST_OPERATION, LOST_SOURCE = "(lost)", "lost"
# In place of a name that was not given, or that did not reach the trace.
UNNAMED, NAME_LOST = "(unnamed)", "(name lost)"

# Of probe_hits, by code; calibration.event has more, which never hit a traced thread.
EVENTS = (
    "switch", "wakeup", "call", "call_expensive", "sample", "range", "range_python", "range_auto",
    "gil_release",
)  # fmt: skip
BYSTANDER_EVENTS = ("bystander_switch", "bystander_call")
# Kind of table coverage: the ranges of a process come through the Python package nvtx.
PYTHON_RANGES = "operation:python"
# Kind of table coverage: what automatic phases lack in a process, a row for each thing.
PHASES_COVERAGE = "operation:phases"
# Kind of table coverage: tasks and methods of actors of Ray that are left out.
RAY_COVERAGE = "operation:ray"
RAY_DOMAIN = "ray"
EVENT_PARTS = ("inside", "outside")
