"""The keys of Kafka's configurations: types, defaults, and values as Java reads and prints them."""

from __future__ import annotations

import pytest

from mockbroker.config import keys
from mockbroker.config.keys import (
    ConfigKey,
    ConfigType,
    ConfigValues,
    Scope,
    config_keys,
    format_value,
    parse_duration_ms,
)


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


def test_a_key_is_parsed_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    parse_row = keys._parse_row

    def note(row: tuple[str, ...]) -> ConfigKey:
        parsed.append(row[1])
        return parse_row(row)

    monkeypatch.setattr(keys, "_parse_row", note)
    known = keys.ConfigKeys({row[1]: row[:-1] for row in keys._read_rows(Scope.BROKER)})
    values = ConfigValues(known, {"node.id": 7})

    assert "fetch.max.bytes" in known
    assert "no.such.key" not in known
    assert (values["node.id"], parsed) == (7, [])
    assert (values["fetch.max.bytes"], parsed) == (57_671_680, ["fetch.max.bytes"])
    changed = values.with_changes({"fetch.max.bytes": 1})
    assert (changed["fetch.max.bytes"], changed["node.id"], values["fetch.max.bytes"]) == (1, 7, 57_671_680)
    with pytest.raises(KeyError):
        values["no.such.key"]


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
