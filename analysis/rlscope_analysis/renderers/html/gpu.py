"""What GPUs did, and why they were idle."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from rlscope_analysis.note_sentences import words_of
from rlscope_analysis.renderers.html.bars import bar, legend
from rlscope_analysis.renderers.html.words import kernel_words, percent_words, place, time_words
from rlscope_analysis.result.names import ProcessName
from rlscope_analysis.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlscope_analysis.renderers.html.markup import Html, Markup
    from rlscope_analysis.result.page import Gpu, Page, Record

# Buckets of breakdown, by what the launching thread does.
_BUCKETS = {
    "python": ("python", "Python"), "simulator": ("native", "simulator"),
    "backend": ("native", "backend"), "cuda_api": ("other", "CUDA calls"),
    "spin": ("other", "spinning"), "other": ("other", "other code"),
    "running": ("cpu", "on a CPU"), "runnable": ("queue", "waits for a CPU"),
    "gil_wait": ("waits", "waits for the GIL"), "gpu_wait": ("waits", "waits for the GPU"),
    "io_wait": ("waits", "waits for a device, a pipe or a socket"),
    "sleeping": ("waits", "sleeps"), "lost": ("lost", "lost"),
}  # fmt: skip
_NOT_KNOWN = ("unknown", "not known")


def gpu(m: Markup, page: Page) -> Html | None:
    """Return the GPUs; None: nothing is known of any."""
    found = page.gpu
    if found is None:
        return None
    return m.section(
        "GPU",
        m.tag("ul", *(_busy(m, found, row) for row in _shown(found)), class_="rows gpus"),
        m.tag("div", _idle(m, found), _kernels(m, found), class_="cards"),
        aside="busy: at least one kernel, copy or graph is under way",
        id_="gpu",
    )


def _shown(found: Gpu) -> Sequence[Record]:
    """Return each GPU, and where there are several all of them together."""
    devices = [row for row in found.time if row["scope"] == "device"]
    return devices if len(devices) == 1 else found.time


def _busy(m: Markup, found: Gpu, row: Record) -> Html:
    if row["scope"] == "trace":
        name = "all GPUs together"
    else:
        model = found.devices.get(row["device_id"])
        name = f"GPU {row['device_id']}" + (f" {model}" if model else "")
    span = row["span_ns"] or 1
    parts = [("gpu", row["busy_ns"] / span, f"busy {time_words(row['busy_ns'])}"),
             ("idle", row["idle_ns"] / span, f"idle {time_words(row['idle_ns'])}")]  # fmt: skip
    return m.tag(
        "li",
        m.tag("span", name, class_="name", title=name),
        bar(m, parts),
        m.tag("span", percent_words(row["busy_ns"] / span), class_="n", data_gpu=row["scope"],
              data_device=row["device_id"], data_ns=row["busy_ns"], data_span=row["span_ns"]),
        m.tag("span", f"of {time_words(row['span_ns'])}", class_="n quiet",
              title=count_of(row["activities"], "activity").replace("ys", "ies")),
    )  # fmt: skip


def _idle(m: Markup, found: Gpu) -> Html | None:
    """Return what the launching threads did while the GPUs of their process were idle."""
    of_process: dict[int, list[Record]] = defaultdict(list)
    for row in found.idle:
        of_process[row["process_id"]].append(row)
    if not of_process:
        return None
    lines: list[Html] = []
    seen: dict[str, list[str]] = defaultdict(list)
    for rows in list(of_process.values())[:8]:
        total = sum(row["time_ns"] for row in rows) or 1
        parts = []
        for row in rows:
            name, words = _BUCKETS.get(row["bucket"] or "", _NOT_KNOWN)
            share = row["time_ns"] / total
            seen[name].append(words)
            said = f"{words}: {time_words(row['time_ns'])}, {percent_words(share)}"
            parts.append((name, share, said))
        who = words_of(ProcessName(rows[0]["name"], rows[0]["pid"]))
        lines.append(
            m.tag("li", m.tag("span", who, class_="name", title=who), bar(m, parts),
                  m.tag("span", time_words(total), class_="n", data_idle=rows[0]["process_id"],
                        data_ns=total))
        )  # fmt: skip
    meanings = ((name, ", ".join(dict.fromkeys(words))) for name, words in seen.items())
    return m.tag(
        "div",
        m.tag("h3", "While the GPU was idle, the launching thread"),
        m.tag("ul", *lines, class_="rows three"),
        legend(m, meanings),
    )


def _kernels(m: Markup, found: Gpu) -> Html | None:
    if not found.kernels:
        return None
    most = max(row["sum_ns"] for row in found.kernels) or 1
    lines = [
        m.tag(
            "li",
            m.tag("code", kernel_words(row["name"] or "(no name)"), class_="name",
                  title=row["name"]),
            m.tag("svg", m.tag("rect", width=place(row["sum_ns"] / most), height="100%",
                               class_="gpu"), class_="bar", aria_hidden="true"),
            m.tag("span", time_words(row["sum_ns"]), class_="n", data_kernel=row["name"],
                  data_ns=row["sum_ns"], title=f"{row['instances']:,} times"),
        )
        for row in found.kernels
    ]  # fmt: skip
    return m.tag(
        "div", m.tag("h3", "Kernels by their time"), m.tag("ul", *lines, class_="rows kernels")
    )
