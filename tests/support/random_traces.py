"""Random traces in which much happens at once, for tests of whatever is derived from them."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st

from rlscope_analysis.schema.vocabulary import CALL_OUTCOMES, GPU_ACTIVITY_KINDS, WAITS
from trace_builder import BLOCKED, LOST, RUNNABLE, RUNNING, SLEEPING, Interval, TraceBuilder

# Few instants: most of what begins meets something that ends.
INSTANTS = st.integers(-2, 24)
LENGTHS = st.integers(0, 9)
LAYERS = st.sampled_from(["python", "simulator", "backend"])
SAMPLED = (None, "python", "simulator", "backend", "cuda_api", "spin", "other")
STATES = st.one_of(
    st.builds(Interval, st.sampled_from([RUNNING, SLEEPING, BLOCKED, LOST]), st.integers(0, 6)),
    # Woken by one of the first threads, or by one that is not there; or preempted.
    st.builds(Interval, st.just(RUNNABLE), st.integers(0, 6), waker=st.integers(-3, 6)),
)
CALLS = st.sampled_from(
    [
        ("launch", "cudaLaunchKernel"), ("memcpy", "cudaMemcpy"), ("memcpy", "cudaMemcpyAsync"),
        ("sync", "cudaStreamSynchronize"), ("sync", "cudaDeviceSynchronize"),
    ]
)  # fmt: skip
CORRELATIONS = st.sampled_from([None, 1, 2, 3])
# Of one process: when recording of its GPU activity began, or did not.
STATUSES = st.lists(
    st.tuples(INSTANTS, st.sampled_from(["on", "on", "off"]), st.booleans()),
    max_size=2, unique_by=lambda status: status[0],
)  # fmt: skip


@st.composite
def traces(draw: st.DrawFn) -> TraceBuilder:
    builder = TraceBuilder(Path("unused"), with_views=False)
    processes = [
        builder.process(pid=number, parent=draw(st.sampled_from([None, 1])))
        for number in range(draw(st.integers(1, 3)))
    ]
    for kind in ("thread_state", "gpu_activity"):
        for process_id in draw(st.sets(st.sampled_from([None, *processes]))):
            builder.coverage(kind, process_id=process_id, measured=draw(st.booleans()))
    for process_id in processes:
        for ts_ns, state, is_late in draw(STATUSES):
            builder.gpu_status(process_id, ts_ns, state=state, is_late=is_late)
    builder.coverage("operation")
    for layer in draw(st.sets(LAYERS)):
        builder.site(layer, "probed later", probed_ns=draw(INSTANTS))
    # Threads of one process do not follow each other, as in a trace of several at once.
    threads = [
        builder.thread(
            draw(st.sampled_from(processes)),
            states=draw(st.lists(STATES, max_size=6)),
            start_ns=draw(st.integers(0, 5)),
        )
        for _ in range(draw(st.integers(0, 5)))
    ]
    if threads:
        add_rows(draw, builder, st.sampled_from(threads))
        for _ in range(draw(st.integers(0, 2))):
            builder.quota(draw(st.sampled_from(threads)), draw(INSTANTS))
        for _ in range(draw(st.integers(0, 4))):
            builder.early_message(
                draw(st.sampled_from(threads)), sender=draw(st.sampled_from(threads)),
                sent_ns=draw(INSTANTS), read_ns=draw(INSTANTS),
                channel=draw(st.sampled_from(["pipe", "socket"])),
            )  # fmt: skip
    for _ in range(draw(st.integers(0, 3))):
        start = draw(INSTANTS)
        builder.other_run(0, start, start + draw(LENGTHS), pid=draw(st.integers(7, 8)), name="busy")
    for _ in range(draw(st.integers(0, 6))):
        start, length = draw(INSTANTS), draw(LENGTHS)
        kind = draw(st.sampled_from([kind for kind in GPU_ACTIVITY_KINDS if kind]))
        builder.gpu_activity(
            draw(st.sampled_from(processes)), start, start + length, kind=kind,
            device_id=draw(st.integers(0, 1)), stream_id=draw(st.sampled_from([None, 0, 1])),
            correlation_id=draw(CORRELATIONS),
        )  # fmt: skip
    return builder


def add_rows(draw: st.DrawFn, builder: TraceBuilder, threads: st.SearchStrategy[int]) -> None:
    for _ in range(draw(st.integers(0, 25))):
        thread, start, length = draw(threads), draw(INSTANTS), draw(LENGTHS)
        what = draw(st.sampled_from(["operation", "native", "cuda", "wait", "sample"]))
        if what == "operation":
            builder.operation(thread, start, start + length, draw(st.sampled_from("abc")))
        elif what == "native":
            outcome = draw(st.sampled_from(CALL_OUTCOMES))
            builder.native_call(thread, start, start + length, draw(LAYERS), outcome=outcome)
        elif what == "sample":
            builder.sample(thread, start, draw(st.sampled_from(SAMPLED)))
        elif what == "wait":
            kind = draw(st.sampled_from(WAITS[1:]))
            lock = draw(st.sampled_from((None, 1, 2))) if kind == "lock" else None
            mutex = draw(st.booleans()) if lock else None
            builder.wait(thread, start, start + length, kind, lock=lock, is_mutex=mutex)
        else:
            kind, name = draw(CALLS)
            builder.cuda_call(
                thread, start, start + length, kind=kind, name=name,
                correlation_id=draw(CORRELATIONS),
            )  # fmt: skip
