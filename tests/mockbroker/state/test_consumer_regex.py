"""Subscriptions by expression are read as Kafka's RE2/J reads them."""

from __future__ import annotations

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.consumer_regex import matching


@pytest.mark.parametrize("regex", [r"\C", r"a\\\C", r"\Qx\E\C", "a{99999999999}", "a{1,999999999}", "(", r"(a)\1"])
def test_what_javas_re2_does_not_read_is_refused(regex: str) -> None:
    with pytest.raises(KafkaError) as refused:
        matching(regex, ())

    assert refused.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize(
    ("regex", "names"),
    [(r"\\C", {r"\C"}), (r"\Qa\C\E+", {r"a\C"}), ("or.*", {"orders"}), ("a{2}", {"aa"}), (r"\{99999999999", set())],
)
def test_the_whole_name_has_to_match(regex: str, names: set[str]) -> None:
    assert matching(regex, [r"\C", r"a\C", "orders", "reorders", "aa", "aaa"]) == names
