"""Client quotas: entities, values, filters."""

from __future__ import annotations

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.quotas import Component, Match, QuotaChange, Quotas, entity_of

ALICE = entity_of({"user": "alice"})


def kept(*entities: dict[str, str | None]) -> Quotas:
    quotas = Quotas()
    for entity in entities:
        quotas.put(entity_of(entity), {"producer_byte_rate": 1.0})
    return quotas


def test_changes_add_to_what_an_entity_has_and_none_takes_away() -> None:
    quotas = Quotas()
    quotas.put(ALICE, {"producer_byte_rate": 1.0, "consumer_byte_rate": 2.0})

    after = quotas.altered(ALICE, [QuotaChange("producer_byte_rate", None), QuotaChange("request_percentage", 0.5)])

    assert after == {"consumer_byte_rate": 2.0, "request_percentage": 0.5}


def test_an_entity_that_has_nothing_left_is_not_found() -> None:
    quotas = kept({"user": "alice"})
    quotas.put(ALICE, {})

    assert quotas.find([], strict=False) == []


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        ({}, "producer_byte_rate", 1.0),
        ({"topic": "t"}, "producer_byte_rate", 1.0),
        ({"user": ""}, "producer_byte_rate", 1.0),
        ({"user": "a"}, "connection_creation_rate", 1.0),
        ({"user": "a"}, "producer_byte_rate", 0.0),
        ({"user": "a"}, "producer_byte_rate", 1.5),
        ({"user": "a"}, "producer_byte_rate", 2.0**64),
        ({"ip": "10.0.0.1"}, "producer_byte_rate", 1.0),
        ({"ip": "10.0.0.1", "user": "a"}, "connection_creation_rate", 1.0),
        ({"ip": "10.0.0.1"}, "connection_creation_rate", 2.0**31),
    ],
)
def test_what_is_no_quota_is_an_invalid_request(entity: dict[str, str | None], key: str, value: float) -> None:
    with pytest.raises(KafkaError) as refused:
        Quotas().altered(entity_of(entity), [QuotaChange(key, value)])

    assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1", "1.2.65535", "16777216", "localhost", "::1", "[::1]", None])
def test_every_form_of_an_address_that_java_reads_is_one(address: str | None) -> None:
    assert Quotas().altered(entity_of({"ip": address}), [QuotaChange("connection_creation_rate", 1.0)])


@pytest.mark.parametrize("address", ["256.1.1.1", "1.2.3.4.5", "1.2.65536", "4294967296", "host.example", ":::1"])
def test_what_is_no_address_is_refused_without_asking_a_name_server(address: str) -> None:
    with pytest.raises(KafkaError, match="not a valid IP"):
        Quotas().altered(entity_of({"ip": address}), [])


def test_a_filter_finds_a_name_the_default_or_any() -> None:
    quotas = kept({"user": "alice"}, {"user": None}, {"client-id": "c"})

    def found(match: Match, name: str | None = None) -> list[str | None]:
        return [entity[0][1] for entity, _ in quotas.find([Component("user", match, name)], strict=True)]

    assert found(Match.EXACT, "alice") == ["alice"]
    assert found(Match.DEFAULT) == [None]
    assert found(Match.SPECIFIED) == ["alice", None]


def test_a_strict_filter_leaves_out_entities_of_more_types() -> None:
    quotas = kept({"user": "alice"}, {"user": "alice", "client-id": "c"})
    alice = [Component("user", Match.EXACT, "alice")]

    assert len(quotas.find(alice, strict=False)) == 2
    assert [entity for entity, _ in quotas.find(alice, strict=True)] == [ALICE]
