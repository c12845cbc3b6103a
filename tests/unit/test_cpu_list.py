"""Which CPUs a list of the OS kernel names; what is none is not half of one."""

import pytest

from rlscope_analysis.cpu_list import listed_cpus


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0-3,8", {0, 1, 2, 3, 8}), ("5", {5}), ("0-1, 4", {0, 1, 4}),
        ("[0, 1, 5]", {0, 1, 5}), ("[]", set()), ("[1e999, NaN]", set()),
        (None, set()), ("", set()), ("0-1,x", set()), ("0,9-3", set()),
        ("0-99999", set()), ("1" * 4000, set()), (",".join(["0-9999"] * 3), set()),
    ],
)  # fmt: skip
def test_a_list_is_what_it_says(text: str | None, cpus: set[int]) -> None:
    assert listed_cpus(text) == cpus
