"""Subscriptions by expression are read as Kafka's RE2/J reads them."""

from __future__ import annotations

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.state.group.consumer_regex import match_names
from tests.support.raises_code import raises_code


@pytest.mark.parametrize("regex", [r"\C", r"a\\\C", r"\Qx\E\C", "a{99999999999}", "a{1,999999999}", "(", r"(a)\1"])
def test_syntax_that_re2j_does_not_support_is_rejected(regex: str) -> None:
    with raises_code(ErrorCode.INVALID_REGULAR_EXPRESSION):
        match_names(regex, ())


@pytest.mark.parametrize(
    ("regex", "names"),
    [(r"\\C", {r"\C"}), (r"\Qa\C\E+", {r"a\C"}), ("or.*", {"orders"}), ("a{2}", {"aa"}), (r"\{99999999999", set())],
)
def test_the_whole_name_has_to_match(regex: str, names: set[str]) -> None:
    assert match_names(regex, [r"\C", r"a\C", "orders", "reorders", "aa", "aaa"]) == names
