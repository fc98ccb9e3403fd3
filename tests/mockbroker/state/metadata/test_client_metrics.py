"""Configuration of client metrics subscriptions."""

from __future__ import annotations

import pytest

from mockbroker.config.keys import ConfigError
from mockbroker.state.metadata.client_metrics import parse_match


def test_spaces_around_name_and_pattern_are_ignored_and_the_last_of_two_patterns_is_used() -> None:
    parsed = parse_match([" client_id = a.* ", "client_id=b"])

    assert {name: pattern.pattern for name, pattern in parsed.items()} == {"client_id": "b"}


@pytest.mark.parametrize("pattern", [r"client_id=(?<name>x)\p{Alpha}", r"client_id=\pL+", "client_id=(?<!a)b"])
def test_patterns_with_java_syntax_are_accepted(pattern: str) -> None:
    assert parse_match([pattern])


@pytest.mark.parametrize(
    "pattern", ["", "=", "client_id", "client_id=", "=x", "client_id=a=b", "topic=x", "client_id=("]
)
def test_an_invalid_pattern_is_rejected(pattern: str) -> None:
    with pytest.raises(ConfigError, match="Illegal client matching pattern"):
        parse_match([pattern])
