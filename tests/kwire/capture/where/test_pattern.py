"""Patterns find what Python's `re` finds, in time that the pattern cannot blow up."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.capture.where.pattern import Pattern, PatternError

_ATOMS = st.sampled_from(
    [*"abé-x1 ", ".", "[ab]", "[^a]", "[a-c1]", "[]a]", r"[\d-]", r"\w", r"\d", r"\S", r"\.", "^", "$"]
)
_COUNTS = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}", "{,2}", "*?", "+?"]).filter(
    lambda each: each != "{,2}"
)


def _patterns() -> st.SearchStrategy[str]:
    return st.recursive(
        _ATOMS,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3).map("".join),
            st.builds("({}|{})".format, inner, inner),
            st.builds("(?:{}){}".format, inner, _COUNTS),
        ),
        max_leaves=8,
    )


@given(_patterns(), st.lists(st.text("abcéx1-. ", max_size=8), min_size=1, max_size=4))
def test_a_pattern_finds_what_python_finds(pattern: str, texts: list[str]) -> None:
    ours, pythons = Pattern(pattern), re.compile(pattern)

    assert [ours.search(text) for text in texts] == [pythons.search(text) is not None for text in texts]


@given(st.text("aBcÄ", max_size=4), st.text("AbCäx", max_size=8))
def test_a_pattern_of_any_case_finds_what_python_finds(word: str, text: str) -> None:
    assert Pattern(f"(?i)^.*{word}[a-b]?$").search(text) == bool(re.search(f"(?i)^.*{word}[a-b]?$", text))


@pytest.mark.parametrize("pattern", ["(a+)+$", "^(a|a)*$", "(a*)*b", ".*.*.*.*=", "(.{1,30}){1,30}c"])
def test_no_pattern_takes_longer_than_its_text_is_long(pattern: str) -> None:
    compiled = Pattern(pattern)

    assert not compiled.search("a" * 50_000 + "!")
    # What was learned of one text is all that the next one needs.
    assert len(compiled._steps) < 5_000


@pytest.mark.parametrize(
    ("pattern", "at", "what"),
    [
        ("a)", 1, "no ("),
        ("(a", 0, "not closed"),
        ("x[ab", 1, "not closed"),
        ("*a", 0, "nothing that * could repeat"),
        ("a**", 2, "cannot be repeated"),
        (r"(a)\1", 3, r"\1 is not among"),
        (r"\bword", 0, r"\b is not among"),
        ("a(?=b)", 1, "of the groups"),
        ("a{2", 1, "begins a count"),
        ("a{3,2}", 1, "the lesser one first"),
        ("a{1001}", 1, "up to 1000"),
        ("[z-a]", 1, "no range"),
        ("(" * 60, 50, "inside each other"),
        ("a\\", 1, "\\"),
        ("((a{100}){100}){100}", 0, "too large"),
    ],
)
def test_what_is_no_pattern_is_told_with_its_place(pattern: str, at: int, what: str) -> None:
    with pytest.raises(PatternError) as refused:
        Pattern(pattern)

    assert what in str(refused.value)
    assert refused.value.at == at
