"""Words of pages: names of kernels."""

from __future__ import annotations

import pytest

from rlscope_analysis.renderers.html.words import kernel_words

LAMBDA = "{lambda(int, float)#1}"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ampere_sgemm_32x32_tn", "ampere_sgemm_32x32_tn"),
        ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)"),
        ("void fft2d<float, 5u>(float2*, int (*)(int), long)", "fft2d<float, 5u>"),
        ("void a::b::(anonymous namespace)::pool<c::half>(int, float const*)", "pool<half>"),
        ("void k<a::impl<a::add<float> >(a::It&)::" + LAMBDA + ">(int)", "k<impl<add<float>>>"),
        ("void k<4, a::f(c::S, c::S)::" + LAMBDA + "::operator()() const, d::A<char*, 2> >(int)",
         "k<4, f, A<char*, 2>>"),
        ("k(", "k("),
        ("()", "()"),
    ],
)  # fmt: skip
def test_a_kernel_has_its_own_name(name: str, words: str) -> None:
    assert kernel_words(name) == words


def test_long_and_nested_names_are_cut() -> None:
    assert len(kernel_words("k<" + "a, " * 1000 + "b>")) == 72
    assert kernel_words("k" + "(" * 200_000 + ")" * 200_000).startswith("k(")
