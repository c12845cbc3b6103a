"""The sentences of answers: notes with their parameters in, text for people out.

As `sentences` for the facts of a trace: nothing reads what comes out here but people.
"""

from __future__ import annotations

import signal
from types import SimpleNamespace as Named
from typing import TYPE_CHECKING, Any

from rlscope_analysis.balance_sentences import BALANCE
from rlscope_analysis.cell_sentences import CELLS, NO_NAME, thread_words
from rlscope_analysis.command_sentences import COMMANDS
from rlscope_analysis.comparison_sentences import COMPARISON
from rlscope_analysis.findings.catalog import BY_CODE
from rlscope_analysis.fleet_sentences import FLEET
from rlscope_analysis.result.names import Part, ProcessName, ThreadName
from rlscope_analysis.schema.vocabulary import ANY_ITERATION_NAME
from rlscope_analysis.sentences import (
    coverage_sentence,
    facts_of,
    gap_sentence,
    loss_sentence,
    quality_sentence,
    reason_sentence,
    site_sentence,
)
from rlscope_analysis.whatif_sentences import WHATIF
from rlscope_analysis.wording import count_of, longest_words, percent, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rlscope_analysis.result.note import Note

_KINDS_OF_PART = {"outside": "outside the trace", "unknown": "not known"}
# In words, for people; kinds of event that differ in their price only are one.
_EVENTS = {
    "switch": "switches", "wakeup": "wakeups", "call": "calls", "call_expensive": "calls",
    "sample": "samples", "range": "ranges", "range_python": "ranges", "range_auto": "phases",
    "gil_release": "GIL releases",
}  # fmt: skip
_ASSUMED = {"thread_state": "there, inside a call that does not wait counts as on a CPU"}


# An exit status above it: a signal killed the program.
_KILLED = 128
# Longer titles would push the numbers off the screen.
_TITLE_LENGTH = 28


def sentence_of(note: Note) -> str:
    """Return what a note says."""
    entry = SENTENCES[note.code]
    return entry.format(**note.named) if isinstance(entry, str) else entry(Named(**note.named))


def words_of(name: ProcessName | ThreadName) -> str:
    """Name a process or a thread."""
    if isinstance(name, ThreadName):
        return thread_words(name.name, name.tid)
    if not name.is_known:
        return "(process not known)"
    pid = f"pid {'not known' if name.pid is None else name.pid}"
    if name.threads is not None:
        pid += f", {count_of(name.threads, 'thread')}"
    return f"{printable(name.name or NO_NAME)} ({pid})"


def part_words(part: Part) -> str:
    """Name whose part it is, and how much of the whole."""
    if isinstance(part.whose, ThreadName):
        whose = words_of(part.whose)
    else:
        whose = _KINDS_OF_PART.get(part.whose) or printable(part.whose)
    return f"{whose} {percent(part.count, part.whole)} %"


def _limit(n: Named) -> str:
    limit = BY_CODE[n.code]
    return f"{limit.what}: {limit.advice()}" if limit.remedy else limit.what


def _short(name: str, most: int = 36) -> str:
    """Write a name on one line of prose, its beginning if it is long."""
    words = printable(name)
    return words if len(words) <= most else f"{words[: most - 3]}..."


def _exit_words(code: int) -> str:
    """Name how a program ended: by its exit status, as a shell shows it."""
    if code <= _KILLED:
        return f"with exit status {code}"
    try:
        return f"by {signal.Signals(code - _KILLED).name}"
    except ValueError:
        return f"by signal {code - _KILLED}"


def _traced_program(n: Named) -> str:
    parts = [_short(n.program)]
    if n.duration_ns is not None:
        start_up = f" (start-up {n.start_up_ns / 1e9:,.1f} s)" if n.start_up_ns else ""
        whole_s = (n.duration_ns + (n.left_out_ns or 0)) / 1e9
        kept = f"the last {n.duration_ns / 1e9:,.1f} s of {whole_s:,.1f} s"
        parts.append(kept if n.left_out_ns else f"{n.duration_ns / 1e9:,.1f} s{start_up}")
    parts += [n.window] if n.window else []
    parts += [f"ended {_exit_words(n.exit_code)}"] if n.exit_code else []
    cpus = f" on CPUs {_short(n.cpus, 20)}" if n.cpus else ""
    parts.append(count_of(n.processes, "process") + cpus)
    busy = n.gpu["busy_ns"] / n.gpu["span_ns"] if n.gpu["processes"] and n.gpu["span_ns"] else None
    no_gpu = "not used" if n.is_gpu_unused else "not measured"
    parts.append(f"GPU: {no_gpu}" if busy is None else f"GPU: busy {busy * 100:.1f} %")
    return "   ".join(parts)


def _goes_by_name(n: Named) -> bool:
    """Whether a process is recognised by the name it has, and not by what it is for."""
    return bool(n.role == "other" or n.is_titled)


def _role(n: Named) -> str:
    pid = f"(pid {'not known' if n.pid is None else n.pid})"
    if _goes_by_name(n):
        return f"{_short(n.name or NO_NAME, _TITLE_LENGTH)} {pid}"
    return f"{n.role} {pid}" if n.number is None else f"{n.role} {n.number} {pid}"


def opening_words(role: Note) -> str:
    """Return who a process is, to begin a sentence: names of programs stay as they are."""
    who = sentence_of(role)
    return who if _goes_by_name(Named(**role.named)) else f"{who[0].upper()}{who[1:]}"


def _called(name: str) -> str:
    """Name a function of Python, or the code of a file that is in none."""
    name, _, file = name.partition("<module> (")
    return name or f"top-level code of {file.removesuffix(')')}"


def _verdict(n: Named) -> str:
    who = "The GPU" if n.who is None else opening_words(n.who)
    whole = "the run" if n.is_whole else "an iteration"
    whole = whole if n.of_path else "its life"
    who += f", like {count_of(n.others, 'other')}," if n.others else ""
    mostly = "" if n.code == "one_function" else "mostly "
    by = f", {mostly}{_short(_called(n.by))}" if n.by else ""
    limit, share = BY_CODE[n.code], f"{n.share * 100:.0f} %"
    held = f"{whole} could be up to {share} shorter" if limit.is_gain else f"{share} of {whole}"
    if n.half is not None:
        kind = "native" if n.half["code"] == "native_code" else "Python"
        held += f", {(n.share + n.half['share']) * 100:.0f} % with the {kind} code in it"
    sentence = f"{who} {limit.what}{by}: {held}."
    if n.causes:
        return f"{sentence} {_causes(n.causes)}"
    if n.only_cpu is not None:
        return f"{sentence} {_only_cpu(**n.only_cpu)}"
    if n.idle is not None:
        return f"{sentence} {_beside_idle(n.idle)}"
    if n.largest is not None:
        return f"{sentence} {_largest(**n.largest)}"
    if n.waiter is not None:
        return f"{sentence} Meanwhile {sentence_of(n.waiter)} waits for it."
    return sentence


# A cause that is less of what one function takes is not named with it.
_LEAST_CAUSE = 0.05


def _causes(causes: list[dict[str, Any]]) -> str:
    named = [
        f"{cause['code']} {cause['share'] * 100:.0f} %"
        for at, cause in enumerate(causes)
        if at == 0 or cause["share"] >= _LEAST_CAUSE
    ]
    return f"In it: {', '.join(named)}."


def _only_cpu(cpu: int, idle_cpu: int, idle_share: float) -> str:
    return (
        f"It ran on CPU {cpu} only, while nothing of the program ran on CPU {idle_cpu} for"
        f" {idle_share * 100:.0f} % of the time: look for taskset, affinity, numactl."
    )


def _beside_idle(share: float) -> str:
    return (
        f"For {share * 100:.0f} % of that time nothing of the program ran on another of its CPUs."
    )


def _largest(code: str, share: float) -> str:
    return f"The largest part ({share * 100:.0f} %) {BY_CODE[code].what}."


def _no_finding(n: Named) -> str:
    return f"No single cause stands out. {_largest(n.code, n.share)}"


# Times the mean of the others: said of the first iteration from here on.
_SLOW_FIRST = 2
# Of fewer iterations it is said that shares are rough.
FEW = 5
_FEW_WORDS = "Of so few iterations shares are rough."
# From this part of its CPU time on it is said that a process spins.
_LEAST_SPIN = 0.1


def _steps(n: Named) -> str:
    if n.steps_per_s is None:
        return ""
    words = f"; {n.steps_per_s:,.0f} environment steps/s"
    if n.evaluation_steps_per_s:
        words += f" and {n.evaluation_steps_per_s:,.0f} in evaluation"
    return words


def _pace(n: Named) -> str:
    if n.source == "whole":
        return (
            f"No iterations were found: no updates, no range called {ANY_ITERATION_NAME}"
            f" (--per takes any){_steps(n)}."
        )
    found = {"phases": "updates", "range": f"range {_short(n.name or '', 30)}"}
    rest = ", without the first" if n.first_ns is not None else ""
    words = (
        f"{count_of(n.iterations, 'iteration')} ({found[n.source]}{rest}) of"
        f" {n.mean_ns / 1e6:,.1f} ms"
    )
    if n.iterations > 1:
        words += f", {n.iterations * n.mean_ns / 1e9:,.1f} s in all"
        words += f", {longest_words(n.iterations)} {n.p99_ns / 1e6:,.1f} ms"
    if n.first_ns is not None and n.first_ns >= _SLOW_FIRST * n.mean_ns:
        words += f"; the first iteration took {n.first_ns / 1e6:,.1f} ms"
    words += _steps(n)
    if n.cpu_share is not None:
        words += f"; {n.who} uses {n.cpu_share:.2f} CPUs"
        if (n.spin_share or 0) >= _LEAST_SPIN * n.cpu_share:
            words += f", {n.spin_share:.2f} of them spinning"
    few = f" {_FEW_WORDS}" if n.iterations < FEW else ""
    return f"{words}.{few}"


def _workers_wait(n: Named) -> str:
    whom = "1 worker waits" if n.workers == 1 else f"{n.workers:,} workers wait"
    return f"{whom} {n.share * 100:.0f} % of the time for the {n.role}."


def _lane(n: Named) -> str:
    """Name a thread: by what its process is where it speaks for that, else by its own name too."""
    who = sentence_of(n.role) if n.role else words_of(ProcessName(n.thread, n.pid))
    return who if n.speaks else f"{who}, thread {words_of(ThreadName(n.thread, n.tid))}"


def _gpu_lane(n: Named) -> str:
    return f"GPU {n.device}" + ("" if n.stream is None else f", stream {n.stream}")


NO_PHASE = {
    "not_recorded": "its operations were not recorded (--all)",
    "not_looked_for": "none was looked for (--no-auto)",
    "no_python": "it is no Python program",
    "nothing_known": "it used no known environment, model or framework (add yours: --phases)",
}


_IN_NO_PHASE = {
    "(no phase)": "in none of the phases that were found or marked, running or ready to run",
    "(waiting)": "in no phase, and asleep",
}


def _more_rows(n: Named) -> str:
    words = f"{n.count:,} more"
    for at, name in enumerate(n.names):
        longer = f"{words}{', ' if at else ': '}{printable(name)}"
        left = at + 1 < len(n.names)
        if len(longer) > n.most - 5 * left:
            return f"{words}, ..." if at else words
        words = longer
    return words


def _no_phase(n: Named) -> str:
    who = f"{sentence_of(n.who)}, {n.share * 100:.0f} % of the CPU time"
    return f"no phase in {who}: {NO_PHASE[n.reason]}"


def _no_phase_in_more(n: Named) -> str:
    if not n.is_all:
        return f"nor in {n.count:,} more"
    words = (
        f"no phase in {count_of(n.count, 'busy process')}, {n.share * 100:.0f} % of the CPU time"
    )
    return f"{words}: --view processes"


# What is there in part, by trace_stat.kind.
_LACKING = {
    "rate-limited": "{} beyond the rate", "skipped": "{} left out", "truncated": "{} cut short",
    "unmatched": "{} in part",
}  # fmt: skip


def _losses_and_overhead(n: Named) -> str:
    unknown = "not known how much"
    lost = "nothing" if n.lost == 0 else unknown if n.lost is None else count_of(n.lost, "record")
    others = [
        _LACKING.get(kind, "{} " + printable(kind)).format(
            unknown if count is None else count_of(count, "record")
        )
        for kind, count in sorted(n.others.items())
    ]
    lost += f" ({', '.join(others)}: --all)" if others else ""
    if n.overhead_ns is None or not n.cpu_ns:
        cost = "cost of recording: not measured"
    else:
        cost = f"recording cost {percent(n.overhead_ns, n.cpu_ns)} % of the CPU time"
    return f"lost: {lost}; {cost}. More: --all, --view limits, explain"


def _process(n: Named) -> str:
    return words_of(ProcessName(n.name, n.pid))


def _quality(n: Named) -> str:
    return quality_sentence(n.quality, n.code, n.subject, n.detail, n.numbers)


def _loss(n: Named) -> str:
    count = "records, not known how many" if n.count is None else count_of(n.count, "record")
    return f"{printable(str(n.kind))}: {count}, {printable(sentence_of(n.source))}"


def _coverage(n: Named) -> str:
    whom = "all other processes" if n.has_others else "all processes"
    if not n.of_all:
        whom = _process(n)
        whom += f" and {count_of(n.processes - 1, 'more process')}" if n.processes > 1 else ""
    facts = facts_of(n.facts)
    reason = coverage_sentence(facts, measured=n.is_measured, origin_ns=n.origin_ns)
    what = "measured" if n.is_measured else "not measured"
    return f"{what}: {printable(n.kind)} of {whom}" + (f": {printable(reason)}" if reason else "")


def _sites(n: Named) -> str:
    example = "" if n.symbol is None else f", for example {printable(n.symbol)}"
    functions = f"{count_of(n.count, 'function')} of {printable(n.layer or 'no layer')}"
    return f"{printable(site_sentence(n.state, n.code, n.detail, n.numbers))}: {functions}{example}"


def _late_probes(n: Named) -> str:
    # Not a millisecond too early.
    from_s = f"{-((n.origin_ns - n.since_ns) // 10**6) / 1000:.3f}"
    return (
        f"calls into the {n.layer} were recorded from {from_s} s on: operations that began before"
        f" have no count of them, but their later instances do; --from {from_s} counts the rest"
    )


def _explained_iteration(n: Named) -> str:
    found = {
        "phases": "from the end of an update to the end of the next",
        "range": f"the range {printable(n.name or '')}",
        "whole": "all of it: nothing looks like an iteration",
    }[n.source]
    times = f"{n.duration_ns / 1e6:,.3f} ms; the median is {n.median_ns / 1e6:,.3f} ms"
    words = f"{n.iteration_id:,} of {n.iterations:,} ({found}), {times}"
    # Whoever asks for the slowest has to know of one that was not looked at.
    is_left_out = n.iteration_id != 1 and (n.first_ns or 0) > n.duration_ns
    first = f"; the first, left out, took {(n.first_ns or 0) / 1e6:,.3f} ms: --iteration 1"
    return words + first if is_left_out else words


def _spinning(n: Named) -> str:
    error = f" ± {n.stderr_ns / n.backend_ns * 100:.1f}" if n.stderr_ns else ""
    return (
        f"{percent(n.spin_ns, n.backend_ns)}{error} % of the CPU time that {_process(n)}"
        f" spends in the backend or spinning is spinning: {n.spin_ns / 1e9:,.3f} s in loops that"
        " only wait"
    )


def _waits(n: Named) -> str:
    share = percent(n.time_ns, n.lifetime_ns)
    return f"thread {words_of(ThreadName(n.thread, n.tid))} waits {share} % of its lifetime for"


def _utilization(n: Named) -> str:
    return (
        f"nvidia-smi would say {n.utilization_share * 100:.1f} % of {printable(n.gpu)}; kernels of"
        f" the traced programs ran {percent(n.kernel_ns, n.span_ns)} % of these"
        f" {n.span_ns / 1e9:,.3f} s; see --view utilization"
    )


def _gpu_idle(n: Named) -> str:
    shown = [f"{one['bucket']} {percent(one['time_ns'], n.idle_ns)} %" for one in n.reasons]
    did = f"; meanwhile the launching threads were in {', '.join(shown)} of that" if shown else ""
    return (
        f"no GPU worked for {_process(n)} {percent(n.idle_ns, n.span_ns)} % of the"
        f" {n.span_ns / 1e9:,.3f} s from its first to its last GPU work{did}; see --view gpu-idle"
    )


def _gpu_work(n: Named) -> str:
    done = ", ".join(_work(n))
    whom = f"of {count_of(n.processes, 'process')}"
    if not done:
        return f"no work {whom}, though it was recorded"
    busy = f"; busy {percent(n.busy_ns, n.span_ns)} %" if n.span_ns else ""
    if n.span_ns and n.late_ns is not None:
        busy += f" of the last {n.span_ns / 1e9:,.3f} s: before, not all of it was recorded"
    return f"{done} {whom} on {_models(n.devices)}{busy}"


def _work(n: Named) -> Iterable[str]:
    if n.kernels:
        yield count_of(n.kernels, "kernel")
    if n.graphs:
        yield count_of(n.graphs, "graph")
    if n.copies:
        yield f"{n.copies:,} memcpy and memset"


def _models(names: Sequence[str]) -> str:
    """Name each model once."""
    models = list(dict.fromkeys(names))
    return ", ".join(
        printable(model) if names.count(model) == 1 else f"{names.count(model)} {printable(model)}"
        for model in models
    )


def _gpu_refused(n: Named) -> str:
    reason = coverage_sentence(facts_of(n.facts), measured=False, origin_ns=n.origin_ns)
    return f"of {_process(n)}: {printable(reason or 'why is not known')}"


def _overhead(n: Named) -> str:
    low, mean, high = (f"{ns / n.cpu_ns * 100:.1f}" for ns in (n.low_ns, n.overhead_ns, n.high_ns))
    parts: dict[str, int] = {}
    for event, overhead_ns in n.by_event.items():
        parts[_EVENTS.get(event, event)] = parts.get(_EVENTS.get(event, event), 0) + overhead_ns
    listed = ", ".join(
        f"{word} {overhead_ns / n.cpu_ns * 100:.1f}"
        for word, overhead_ns in sorted(parts.items(), key=lambda part: (-part[1], part[0]))
    )
    return (
        f"recording cost the target about {mean} % of its CPU time ({low} .. {high}), subtracted"
        f" in --view corrected; by: {listed}"
    )


def _iteration(n: Named) -> str:
    source = f" ({n.source})" if n.source else ""
    whom = words_of(n.process) if n.process else "?"
    text = f"one {printable(n.name)}{source}: {n.times:,} in {whom}"
    if n.more_processes:
        text += f", {n.more_times:,} in {count_of(n.more_processes, 'more process')}"
    return text


def _other_threads(n: Named) -> str:
    text = f"{count_of(n.threads, 'thread')} without operations: "
    if n.not_measured == n.threads:
        text += "their time on CPU was not measured"
    else:
        text += f"{n.running_ns / 1e9:,.3f} s on CPU"
        text += f" ({n.not_measured:,} of them were not measured)" if n.not_measured else ""
    return f"{text}; see --view thread"


def _missing(n: Named) -> str:
    return f"{n.kind} was not measured for {count_of(n.processes, 'process')}"


# A new note: an entry here, a format or a function of its parameters, and where it is found.
SENTENCES: dict[str, str | Callable[[Any], str]] = {
    **COMPARISON,
    **COMMANDS,
    **WHATIF,
    **BALANCE,
    **FLEET,
    **CELLS,
    "limit": _limit,
    "blank": "",
    "traced_program": _traced_program,
    "role": _role,
    "verdict": _verdict,
    "no_finding": _no_finding,
    "share_of": lambda n: "critical path" if n.of_path else "life of the leading process",
    "no_thread": "The trace holds no thread.",
    "no_verdict": lambda n: f"What limits it cannot be said: {printable(n.reason)}.",
    "pace": _pace,
    "workers_wait": _workers_wait,
    "few_iterations": _FEW_WORDS,
    "lane": _lane,
    "gpu_lane": _gpu_lane,
    "more_rows": _more_rows,
    "in_no_phase": lambda n: "; ".join(f"{name}: {_IN_NO_PHASE[name]}" for name in n.names),
    "at_stake": "at stake: the most of an iteration that can be gained; they overlap, so they do"
    " not add up",
    "no_states": (
        "not recorded: when threads ran and waited; phases, calls and the GPU are all there is"
    ),
    "ranks_missing": lambda n: (
        f"{n.ranks:,} of {n.world_size:,} ranks: what the others did, and who waited for whom,"
        " is not in it"
    ),
    "no_phase": _no_phase,
    "no_phase_in_more": _no_phase_in_more,
    "losses_and_overhead": _losses_and_overhead,
    "explained_iteration": _explained_iteration,
    "cut_off": "the recording of this trace was cut off: what came after is not in it",
    "nothing_lost": "nothing lost",
    "loss": _loss,
    "loss_source": lambda n: loss_sentence(n.of, n.parameters)[0],
    "loss_remedy": lambda n: loss_sentence(n.of, n.parameters)[1] or "",
    "loss_hint": lambda n: f"hint: {printable(sentence_of(n.remedy))}",
    "duration": lambda n: f"{n.ns / 1e9:,.3f} s",
    "kept_last": lambda n: f"the end: {n.before_ns / 1e9:,.1f} s before were not kept (--last)",
    "no_duration": "not known: the trace holds no thread",
    "traced": lambda n: f"{count_of(n.processes, 'process')}, {count_of(n.threads, 'thread')}",
    "gpu_work": _gpu_work,
    "gpu_refused": _gpu_refused,
    "overhead": _overhead,
    "overhead_not_measured": lambda n: f"not measured: {sentence_of(n.reason)}",
    "nothing_paid": "nothing ran that could have paid for recording",
    "no_calibration": "its recorder did not measure it",
    "no_costs": "no cost of an event was measured",
    "cost_failed": lambda n: reason_sentence(*n.reason),
    "no_cost_of": lambda n: f"no cost of {', '.join(n.events)}",
    "not_measured": _coverage,
    "kind_not_measured": _missing,
    "kind_assumed": lambda n: f"{_missing(n)}: {_ASSUMED[n.kind]}",
    "sites": _sites,
    "more_sites": "{count:,} more functions not probed to the end; see table site",
    "late_probes": _late_probes,
    "faulty_rows": "rows of {relation} that are {fault}: {count:,}; see overlap_fault",
    "faulty_states": "this trace is faulty, please report it: threads whose states do not add up to"
    " their lifetime: {threads:,}; intervals out of order: {intervals:,}",
    "faulty_operations": "this trace is faulty, please report it: the self times add up to"
    " {self_ns:,} ns, the lifetimes to {lifetime_ns:,} ns",
    "recovered": "the recorder did not live to save this trace: rlscope-trace recover did",
    "inferred_switch_ins": "switch-ins that the OS kernel did not show: {count:,}; when they were"
    " follows from its CPU accounting",
    "unknown_wakers": "wakeups without a known waker: {count:,}; this capture cannot tell an"
    " interrupt from the thread it landed on, so what they cost is in no overhead",
    "states_lost": "threads that lack part of their states: {count:,}; see lost. Their switches,"
    " migrations, wakeups and run-queue latencies are those of the recorded part",
    "states_not_measured": lambda n: f"{words_of(n.process)}: its thread states were not measured",
    "spinning": _spinning,
    "utilization": _utilization,
    "gpu_idle": _gpu_idle,
    "doubtful_cost": lambda n: f"the overhead of {n.event} is {_quality(n)}; see --view overhead",
    "cost_not_measured": "nobody measured what {event} costs, which happened {hits:,} times: where"
    " it fell nothing can be corrected; see --view overhead",
    "cost_of_cupti": "what CUPTI costs is in no overhead: it reported {calls:,} calls of the CUDA"
    " API; rlscope-trace calibrate measures the cost of one where there is a GPU",
    "errors_of_samples": "±: standard error of what samples split; a share without it is exact",
    "gap": lambda n: gap_sentence(n.reason, facts_of(n.facts), origin_ns=n.origin_ns),
    "quality": _quality,
    "iteration": _iteration,
    "no_iteration": "not known: no update of a model was found, and no operation is called"
    " {names}; name one with --per",
    "no_operations": "none: the program marked none, and no phase was found",
    "out_of_order": "operations end out of order: the parts of their totals are not known (-)",
    "lifetime": lambda n: f"lifetime of {count_of(n.threads, 'thread')} with operations",
    "other_threads": _other_threads,
}
