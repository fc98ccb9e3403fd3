"""Subscriptions to client metrics: how clients are told."""

from __future__ import annotations

import pytest

from mockbroker.config_keys import ConfigError
from mockbroker.state.client_metrics import parse_match


def test_blanks_around_name_and_pattern_do_not_count_and_the_last_of_two_patterns_does() -> None:
    parsed = parse_match([" client_id = a.* ", "client_id=b"])

    assert {name: pattern.pattern for name, pattern in parsed.items()} == {"client_id": "b"}


@pytest.mark.parametrize("pattern", [r"client_id=(?<name>x)\p{Alpha}", r"client_id=\pL+", "client_id=(?<!a)b"])
def test_patterns_that_java_spells_otherwise_are_patterns(pattern: str) -> None:
    assert parse_match([pattern])


@pytest.mark.parametrize(
    "pattern", ["", "=", "client_id", "client_id=", "=x", "client_id=a=b", "topic=x", "client_id=("]
)
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match="Illegal client matching pattern"):
        parse_match([pattern])
