"""What is said of a comparison of traces, and of limits to it: entries of note_sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlscope_analysis.wording import count_of, printable

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import SimpleNamespace as Named

# Longer values of a fact of the environment are cut.
_MOST = 40
_OF_CPU = " of CPU time"


def _compared(n: Named) -> str:
    what = "an iteration takes"
    what += ", without other programs," * n.by_own
    text = _change(what, n.own if n.by_own else n.duration)
    if n.verdict in ("same", "unknown"):
        return f"{'Same' if n.verdict == 'same' else 'Cannot tell'}: {text}{_cpu(n)}."
    if n.verdict == "different":
        mostly = _mostly(n) if n.duration["base_ns"] != n.duration["new_ns"] else ""
        return f"A different program: {text}{_per_step(n)}{mostly}."
    word = n.verdict.capitalize()
    if n.is_wall_sure or not n.is_cpu_sure:
        text += "" if n.is_wall_sure else ", which alone may be noise"
        return f"{word}: {text}{_mostly(n)}."
    return f"{word}: {_change('an iteration uses', n.cpu, _OF_CPU)}{_mostly(n)}."


def _change(what: str, of: dict[str, Any], kind: str = "") -> str:
    base, new = of["base_ns"], of["new_ns"]
    if base == new:
        return f"{what} {new / 1e6:,.3f} ms{kind} in both"
    text = f"{what} {new / 1e6:,.3f} ms{kind} instead of {base / 1e6:,.3f}"
    if not base:
        return text
    text += f" ({(new - base) / base * 100:+.1f} %"
    if of["low_ns"] is not None:
        # Nothing takes less than no time.
        low = max(of["low_ns"] / base * 100, -100.0)
        text += f"; 95 %: {low:+.1f} .. {of['high_ns'] / base * 100:+.1f} %"
    return f"{text})"


def _cpu(n: Named) -> str:
    return f", and {_change('uses', n.cpu, _OF_CPU)}" if n.cpu else ""


def _per_step(n: Named) -> str:
    if not n.steps or n.steps[0] == n.steps[1]:
        return ""
    base, new = n.duration["base_ns"] / n.steps[0], n.duration["new_ns"] / n.steps[1]
    return f", an environment step {new / 1e3:,.1f} us instead of {base / 1e3:,.1f}"


def _mostly(n: Named) -> str:
    """Name the part that changed most."""
    if n.cause is None:
        return ""
    of = n.cause
    where = {"leading": "in the leading process", "GPU": "on the GPU"}
    words = [f"{printable(of['operation'] or '')} {where.get(of['place'], 'in other processes')}"]
    words += [printable(of[name]) for name in ("layer", "cause") if of[name]]
    kind = "" if of["time"] == "wall" else _OF_CPU
    doubt = "" if n.is_cause_sure else ", as far as is known"
    return f", mostly {', '.join(words)}: {n.cause_ns / 1e6:+,.3f} ms{kind}{doubt}"


def _by_fastest(n: Named) -> str:
    kind = "" if n.what["time"] == "wall" else _OF_CPU
    where = n.what["operation"] or "an iteration"
    text = _change(f"{printable(where)} takes", n.of, kind)
    return f"In the fastest tenth of the iterations, which others disturb least, {text}."


def _units(n: Named) -> str:
    what = {"phases": " (updates)", "whole": " (whole runs)", "iteration": ""}.get(
        n.iteration, f" ({printable(n.iteration)})"
    )
    runs = f"{count_of(n.base_runs, 'run')} against {n.new_runs:,}"
    used = f"the same {count_of(n.iterations, 'iteration')}{what} of each"
    used += f", without the first{f' {n.left_out:,}' if n.left_out > 1 else ''}" * bool(n.left_out)
    unit = {
        "runs": "a run is one value",
        "blocks": f"{n.blocks} blocks of iterations are the values",
        "nothing": "too little for an interval",
    }[n.kind]
    corrected = "corrected for the cost of recording" if n.is_corrected else "as measured"
    return f"{runs}, {used}; {unit}; times {corrected}."


def _normalised(n: Named) -> str:
    machines = (
        f"{printable(cpu or '(CPU not known)')}, {speed:,.1f}"
        for cpu, speed in zip(n.cpus, n.speeds, strict=True)
    )
    base, new = machines
    # Of one model it may be the same machine, at a time when it was slower.
    who = "One kind of CPU, at two speeds" if n.cpus[0] == n.cpus[1] else "Two machines"
    return (
        f"{who}: CPU times of BASE are multiplied by {n.factor:.3f}, to what they would be"
        f" on that of NEW ({base} MB/s of deflate on a core, against {new}). An estimate (grade C):"
        f" standard error {n.error * 100:.0f} %, in the intervals."
    )


def _gpus_normalised(n: Named) -> str:
    base, new = (printable(name) for name in n.gpus)
    memory, computing = n.bounds
    return (
        f"Two kinds of GPU: times of kernels of BASE are multiplied by {n.factor:.3f}, to what they"
        f" would be on that of NEW ({base} against {new}: {memory:.3f} by memory,"
        f" {computing:.3f} by multiprocessors and clock). A rough estimate (grade C):"
        f" standard error {n.error * 100:.0f} %, in the intervals."
    )


_COUNTED = {
    "cuda_launches": "CUDA: launches",
    "gpu_bytes_copied": "GPU: bytes copied",
    "gpu_graphs": "GPU: graphs",
    "gpu_kernels": "GPU: kernels",
    "gpu_memcpy_memset": "GPU: memcpy and memset",
    "environment_steps": "environment steps",
    "leading_operations": "leading: {}",
    "other_operations": "other: {}",
}


def _counted(code: str, name: str) -> str:
    return _COUNTED[code].format(name)


def _other_program(n: Named) -> str:
    rows = [
        f"{printable(_counted(code, name))} {_number(base)} -> {_number(new)}"
        for code, name, base, new in n.counts
    ]
    more = f", and {n.more:,} more" if n.more > 0 else ""
    return f"Per iteration: {', '.join(rows)}{more}."


def _number(value: float) -> str:
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def _other_environment(n: Named) -> str:
    rows = [f"{printable(fact)} {_fact(base)} -> {_fact(new)}" for fact, base, new in n.facts]
    more = f", and {n.more:,} more (--all)" if n.more > 0 else ""
    return f"not the same around it: {', '.join(rows)}{more}"


def _fact(value: str | None) -> str:
    if value is None:
        return "(not known)"
    return printable(value if len(value) <= _MOST else f"{value[: _MOST - 3]}...")


def _others(n: Named) -> str:
    return (
        f"left out of the verdict: what programs outside the trace took, {n.base * 100:.1f} % of an"
        f" iteration in BASE, {n.new * 100:.1f} % in NEW. CPU time tells more on such a machine"
    )


def _gate(n: Named) -> str:
    if n.outcome == "ok":
        return f"Passed: {count_of(n.limits, 'limit')} kept."
    if n.outcome == "worse":
        return "Failed: worse by more than is allowed."
    more = "" if n.runs is None else f": it would take about {count_of(n.runs, 'more run')} a side"
    return f"Cannot tell{more}."


def _held(n: Named) -> str:
    if n.share:
        text = (
            f"{n.new * 100:.1f} % instead of {n.base * 100:.1f} ({(n.new - n.base) * 100:+.1f} pp"
        )
        ends = None if n.low is None else (n.low * 100, n.high * 100)
        unit, digits = "pp", 1
    elif n.relative and n.base:
        text = f"{n.new / 1e6:,.3f} ms instead of {n.base / 1e6:,.3f}"
        text += f" ({(n.new - n.base) / n.base * 100:+.1f} %"
        ends = None if n.low is None else (n.low / n.base * 100, n.high / n.base * 100)
        unit, digits = "%", 1
    else:
        text = f"{n.new / 1e6:,.3f} ms instead of {n.base / 1e6:,.3f}"
        text += f" ({(n.new - n.base) / 1e6:+,.3f} ms"
        ends = None if n.low is None else (n.low / 1e6, n.high / 1e6)
        unit, digits = "ms", 3
    if ends is None:
        return f"{text}; no interval)"
    return f"{text}; {ends[0]:+.{digits}f} .. {ends[1]:+.{digits}f} {unit})"


COMPARISON: dict[str, str | Callable[[Any], str]] = {
    "compared": _compared,
    "other_program": _other_program,
    "counted": lambda n: _counted(n.code, n.name),
    "by_fastest": _by_fastest,
    "compared_units": _units,
    "normalised": _normalised,
    "gpus_normalised": _gpus_normalised,
    "not_normalised": lambda n: (
        "not normalised: runs of one side ran on different CPUs, so times compare the machines, too"
        if n.why == "mixed"
        else "not normalised: the CPUs differ, and how fast they are was not measured on both sides"
        " (it is when the target ends while recorded, without --no-probes): times compare the"
        " machines, too"
    ),
    "gpus_differ": "not normalised: times of GPUs; the GPUs differ, so they compare the GPUs, too"
    " (how fast each can be is known of recordings, and of reports of Nsight Systems)",
    "compared_parts": "of parts that are too small it is not said whether they are more than noise",
    "other_environment": _other_environment,
    "one_run_a_side": "one run a side: how much runs differ from each other is not known, taken is"
    " how much blocks of these do, and 5 % at least. Five runs a side tell more: --base a*.duckdb"
    " --new b*.duckdb",
    "no_interval": lambda n: (
        f"{count_of(n.iterations, 'iteration')} of one run a side: too little for an interval, so"
        " whether a difference is noise cannot be said"
    ),
    "no_cpu_time": "not recorded: CPU time, on one side at least",
    "not_corrected": "not corrected for the cost of recording: it was not measured on both sides",
    "no_steps": "not known: environment steps",
    "time_of_others": _others,
    "not_all_iterations": lambda n: (
        f"compared are the iterations that every run has: of BASE there are {n.base:,}, of NEW"
        f" {n.new:,}"
    ),
    "compared_losses": lambda n: f"lost on both sides together: {count_of(n.count, 'record')}",
    "gate": _gate,
    "held": _held,
    "compared_more": lambda n: (
        f"functions, kernels and waits that changed: {n.seen:,}. More: --all"
        if n.seen
        else "More: --all"
    ),
}  # fmt: skip
