"""The keys of Kafka's configurations: types, defaults, and values as Java reads and prints them."""

from __future__ import annotations

import pytest

from mockbroker.config.keys import ConfigType, Scope, config_keys, format_value, parse_duration_ms


def test_every_default_of_kafka_is_typed_and_passes_its_own_check() -> None:
    counts = {"4.3": (360, 34, 17), "4.4": (379, 38, 27)}
    for release, scope, count in (
        (release, scope, count)
        for release, numbers in counts.items()
        for scope, count in zip((Scope.BROKER, Scope.TOPIC, Scope.GROUP), numbers, strict=True)
    ):
        assert len(config_keys(scope, release)) == count
        for key in config_keys(scope, release).values():
            text = format_value(key.default)
            if text is not None:
                assert key.parse(text) == key.default


def test_a_wrong_secret_is_not_shown() -> None:
    key = config_keys(Scope.BROKER)["ssl.key.password"]

    assert key.type is ConfigType.PASSWORD
    assert key.sensitive


@pytest.mark.parametrize("text", ["0.5", "1.7976931348623157E308", "1.0E7", "1.25E-5", "100.0"])
def test_doubles_are_printed_as_java_prints_them(text: str) -> None:
    assert format_value(float(text)) == text


def test_durations_are_those_of_iso_8601() -> None:
    assert [parse_duration_ms(text) for text in ("PT0.5S", "P1DT2H3M4S", "pt1h")] == [500, 93_784_000, 3_600_000]
    assert [parse_duration_ms(text) for text in ("P", "PT", "PT-1S", "1h")] == [None] * 4
