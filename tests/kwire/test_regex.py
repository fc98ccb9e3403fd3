"""Regular expressions of RE2: matches, invalid expressions, and linear time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.regex import LENGTH_MAX, Pattern, PatternError

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("regex", "matched", "refused"),
    [
        ("orders", ["orders"], ["order", "orderss", "Orders"]),
        ("", [""], ["a"]),
        ("a|bc|", ["a", "bc", ""], ["ab"]),
        ("(a|b)*c+", ["c", "abbac", "cc"], ["ab", "d"]),
        ("a{2}b{1,3}c{2,}", ["aabcc", "aabbbccc"], ["abcc", "aabbbbcc", "aabc"]),
        ("a{,2}|b{|c{x}", ["a{,2}", "b{", "c{x}"], ["aa"]),
        ("x.*?y??", ["x", "xzzy"], ["y"]),
        ("[a-c0-]+", ["b0-a"], ["d"]),
        ("[^a-c]", ["d"], ["a", ""]),
        ("[]a]+", ["]a"], ["b"]),
        (r"[\d\-x]+", ["1-x"], ["y"]),
        ("[[:upper:]][[:^upper:]]", ["Aa"], ["aA"]),
        (r"\d\D\w\W\s\S", ["1aa- x"], ["1111 x"]),
        (r"\Qa.b*\E+", ["a.b*", "a.b**"], ["axb"]),
        (r"\Qa.b", ["a.b"], ["axb"]),
        (r"\x41\x{42}\103\.", ["ABC."], ["ABCD"]),
        ("(?i)ab(?-i)c", ["ABc", "abc"], ["abC"]),
        ("(?i:a)b", ["Ab"], ["aB"]),
        ("(?P<first>a)(?<second>b)(?:c)", ["abc"], ["ab"]),
        (r"^a\b-\Ab|\Aa\z$", ["a"], ["a-b"]),
        (r"a\B-?b", ["ab"], ["a-b"]),
        (r"\pL\p{Nd}\P{L}[\p{Lu}-]\p{^Lu}", ["a1-Bc", "a1--c"], ["11-Bc", "a1-bc", "a1-BC"]),
        (r"\p{Latin}\p{Common}\p{Any}\P{Greek}", ["a1a1"], ["11a1"]),
    ],
)
def test_an_expression_matches_whole_texts(regex: str, matched: list[str], refused: list[str]) -> None:
    pattern = Pattern(regex)

    assert [text for text in matched if not pattern.matches(text)] == []
    assert [text for text in refused if pattern.matches(text)] == []


@pytest.mark.parametrize(
    "regex",
    [
        "(", ")", "a)", "[", "[a", "[b-a]", "*", "a**", "a*+", "a+*", "a{2}{3}", "a{3,2}", "a{1001}",
        "(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "(?>a)", "(?P=a)", "(?P<>a)", "(?<a", "(?#a)", "(?x)a", r"(a)\1", "\\",
        r"\pX", r"\p{Nosuch}", r"\p", r"\p{L", r"\Z", r"\y", r"\x4", r"\x{110000}", r"\xg1", "[[:wrong:]]",
        "a" * (LENGTH_MAX + 1), "\ud800", "(a{1000}){1000}", "a|*", "(|+)",
    ],
)  # fmt: skip
def test_an_expression_outside_re2_is_rejected(regex: str) -> None:
    with pytest.raises(PatternError):
        Pattern(regex)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("regex", ["(a+)+b", "(a|aa)*b", "(a*)*b", "((a?){100}){9}b", "(.*.*.*)*b", "(.{1,30}){1,30}c"])
def test_hostile_expressions_match_in_linear_time(regex: str) -> None:
    pattern = Pattern(regex)

    assert not pattern.matches("a" * 20_000)
    assert not pattern.search("a" * 20_000)


_ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\w", "(?:ab|b)", "(?:a|)"])
_PARTS = st.tuples(_ATOMS, st.sampled_from(["", "*", "+", "?", "{2}", "{1,3}"])).map("".join)
_REGEXES = st.lists(st.lists(_PARTS, max_size=4).map("".join), min_size=1, max_size=3).map("|".join)


@given(regex=_REGEXES, text=st.text("ab-", max_size=8))
def test_common_expressions_match_as_in_python(regex: str, text: str) -> None:
    pattern = Pattern(regex)

    assert pattern.matches(text) == bool(re.fullmatch(regex, text))
    assert pattern.search(text) == bool(re.search(regex, text))


def test_a_text_with_a_lone_surrogate_can_be_searched() -> None:
    assert Pattern("^a.b$").search("a\udc80b")


def test_the_error_of_an_invalid_expression_names_the_invalid_part() -> None:
    with pytest.raises(PatternError, match="missing \\]") as refused:
        Pattern("topic-[ab")

    assert refused.value.fragment == "[ab"


@given(regex=st.text("ab(|)*+?{}[]^$-:\\QEdx1,<P>=!.i", max_size=24))
def test_any_text_is_an_expression_or_raises_pattern_error(regex: str) -> None:
    try:
        Pattern(regex).matches("ab")
    except PatternError:
        return
