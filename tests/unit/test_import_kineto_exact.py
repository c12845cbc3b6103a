"""`import kineto`: every time is exact, whatever it looks like; an independent reader agrees."""

from __future__ import annotations

import gzip
import json
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kineto_builder import (
    EPOCH_US,
    gpu_intervals,
    imported,
    kernel,
    losses,
    measures,
    write_text,
)
from rlscope_trace._ingest import parse_decimal

if TYPE_CHECKING:
    from pathlib import Path

INT64_MAX = 2**63 - 1


def expected(text: str, shift: int) -> tuple[int, bool] | None:
    exact = Decimal(text).scaleb(shift)
    whole = int(exact.to_integral_value(rounding=ROUND_HALF_UP))
    return (whole, exact != exact.to_integral_value()) if abs(whole) <= INT64_MAX else None


digits = st.text("0123456789", min_size=1, max_size=25)
numbers = st.builds(
    lambda sign, whole, fraction, exponent: f"{sign}{whole}{fraction}{exponent}",
    st.sampled_from(["", "-"]),
    digits,
    st.one_of(st.just(""), digits.map(lambda text: f".{text}")),
    st.one_of(st.just(""), st.integers(-30, 30).map(lambda power: f"e{power:+}")),
)


@given(text=numbers, shift=st.sampled_from([0, 3]))
@example(text="1695835542514261.123", shift=3)
@example(text="9223372036854775807", shift=0)
@example(text="9223372036854775808", shift=0)
@example(text="9223372036854775.807499", shift=3)
@example(text="9223372036854775.8075", shift=3)
@example(text="0.0005", shift=3)
@example(text="-0.0005", shift=3)
@example(text="0.00049999", shift=3)
def test_text_to_nanoseconds_equals_decimal(text: str, shift: int) -> None:
    assert parse_decimal(text, shift) == expected(text, shift)


@pytest.mark.parametrize(
    "text", ["", "-", ".", "e5", "1e", "1e+", "1x", "x1", "NaN", "1.5.5", " 1"]
)
def test_what_is_no_number(text: str) -> None:
    assert parse_decimal(text, 3) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e999999999999", None), ("1e-999999999999", (0, True)), ("0e999999999999", (0, False))],
)
def test_huge_exponents(text: str, value: tuple[int, bool] | None) -> None:
    assert parse_decimal(text, 3) == value


def file_with(times: list[tuple[str, str]]) -> str:
    events = [
        json.dumps(kernel("k", 0, 0)).replace(
            f'"ts": {EPOCH_US}, "dur": 0', f'"ts": {ts}, "dur": {dur}'
        )
        for ts, dur in times
    ]
    return f"[{', '.join(events)}]"


def test_times_as_files_have_them(tmp_path: Path) -> None:
    times = [
        ("1695835542514261.123", "0.001"),
        ("1695835542514262", "7"),
        ("1.695835542514263E+15", "1.25e1"),
        ("1695835542514264.1", "0"),
    ]
    with imported(write_text(tmp_path / "a.json", file_with(times))) as con:
        assert con.execute("SELECT start_ns, end_ns FROM gpu_activity").fetchall() == [
            (1695835542514261123, 1695835542514261124),
            (1695835542514262000, 1695835542514269000),
            (1695835542514263000, 1695835542514275500),
            (1695835542514264100, 1695835542514264100),
        ]
        assert ("dropped", "kineto_rounded") not in losses(con)


def test_digits_below_the_nanosecond_are_rounded_and_counted(tmp_path: Path) -> None:
    times = [
        ("1695835542514261.1234", "1.0000"),
        ("1695835542514262.1235", "1.9996"),
        ("1695835542514263.5", "0.0005"),
    ]
    with imported(write_text(tmp_path / "a.json", file_with(times))) as con:
        assert con.execute("SELECT start_ns, end_ns FROM gpu_activity").fetchall() == [
            (1695835542514261123, 1695835542514262123),
            (1695835542514262124, 1695835542514264124),
            (1695835542514263500, 1695835542514263501),
        ]
        assert losses(con)["dropped", "kineto_rounded"] == 3


def busy_text(seed: int) -> str:
    """Make overlapping activities of all kinds on two GPUs and several streams, not in order."""
    events = []
    state = seed
    for _ in range(3_000):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        start_ns, length_ns = (state >> 40) % 5_000_000, (state >> 20) % 3_000
        event = kernel(
            f"kernel_{state % 50}", 0, 0, state % 997, device=state >> 33 & 1,
            stream=7 + (state >> 35) % 4,
            category=("kernel", "kernel", "gpu_memcpy", "gpu_memset")[(state >> 37) % 4],
        )  # fmt: skip
        text = json.dumps(event)
        ts = f"{EPOCH_US + start_ns // 1000}.{start_ns % 1000:03}"
        dur = f"{length_ns // 1000}.{length_ns % 1000:03}"
        events.append(text.replace(f'"ts": {EPOCH_US}, "dur": 0', f'"ts": {ts}, "dur": {dur}'))
    return f'{{"traceEvents": [{", ".join(events)}]}}'


@pytest.mark.parametrize("name", ["busy.json", "busy.json.gz"])
def test_count_sum_union_span_and_idle_equal_the_reference(tmp_path: Path, name: str) -> None:
    path = write_text(tmp_path / name, busy_text(len(name)))
    data = path.read_bytes()
    reference = gpu_intervals(gzip.decompress(data) if name.endswith("gz") else data)
    assert {kind: len(found) for kind, found in reference.items()}.keys() == {
        "kernel", "memcpy", "memset",
    }  # fmt: skip
    everything = [interval for found in reference.values() for interval in found]
    with imported(path, views=True) as con:
        for kind, intervals in reference.items():
            stored = con.execute(
                "SELECT start_ns, end_ns FROM gpu_activity WHERE kind = ?", [kind]
            ).fetchall()
            assert measures(stored) == measures(intervals)
        ((busy_ns,),) = con.execute("SELECT sum(end_ns - start_ns) FROM gpu_busy").fetchall()
        assert busy_ns == measures(everything)["union"]
        order = con.execute("SELECT process_id, start_ns FROM gpu_activity_coded").fetchall()
        assert order == sorted(order)
