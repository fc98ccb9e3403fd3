"""Client quotas: entities, values, filters."""

from __future__ import annotations

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.client_quotas import ClientQuotas, FilterComponent, MatchType, QuotaChange, make_entity
from tests.support.raises_code import raises_code

ALICE = make_entity({"user": "alice"})


def make_quotas(*entities: dict[str, str | None]) -> ClientQuotas:
    quotas = ClientQuotas()
    for entity in entities:
        quotas.set_quotas(make_entity(entity), {"producer_byte_rate": 1.0})
    return quotas


def test_changes_add_values_and_none_removes_them() -> None:
    quotas = ClientQuotas()
    quotas.set_quotas(ALICE, {"producer_byte_rate": 1.0, "consumer_byte_rate": 2.0})

    changes = [QuotaChange("producer_byte_rate", None), QuotaChange("request_percentage", 0.5)]
    after = quotas.apply_changes(ALICE, changes)

    assert after == {"consumer_byte_rate": 2.0, "request_percentage": 0.5}


def test_an_entity_without_values_is_not_found() -> None:
    quotas = make_quotas({"user": "alice"})
    quotas.set_quotas(ALICE, {})

    assert quotas.find_entities([], strict=False) == []


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
def test_an_invalid_quota_is_an_invalid_request(entity: dict[str, str | None], key: str, value: float) -> None:
    with raises_code(ErrorCode.INVALID_REQUEST):
        ClientQuotas().apply_changes(make_entity(entity), [QuotaChange(key, value)])


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1", "1.2.65535", "16777216", "localhost", "::1", "[::1]", None])
def test_every_address_format_of_java_is_accepted(address: str | None) -> None:
    assert ClientQuotas().apply_changes(make_entity({"ip": address}), [QuotaChange("connection_creation_rate", 1.0)])


@pytest.mark.parametrize("address", ["256.1.1.1", "1.2.3.4.5", "1.2.65536", "4294967296", "host.example", ":::1"])
def test_an_invalid_address_is_rejected_without_a_name_server(address: str) -> None:
    with pytest.raises(KafkaError, match="not a valid IP"):
        ClientQuotas().apply_changes(make_entity({"ip": address}), [])


def test_a_filter_finds_a_name_the_default_or_any() -> None:
    quotas = make_quotas({"user": "alice"}, {"user": None}, {"client-id": "c"})

    def find_names(match: MatchType, name: str | None = None) -> list[str | None]:
        return [entity[0][1] for entity, _ in quotas.find_entities([FilterComponent("user", match, name)], strict=True)]

    assert find_names(MatchType.EXACT, "alice") == ["alice"]
    assert find_names(MatchType.DEFAULT) == [None]
    assert find_names(MatchType.SPECIFIED) == ["alice", None]


def test_a_strict_filter_leaves_out_entities_of_more_types() -> None:
    quotas = make_quotas({"user": "alice"}, {"user": "alice", "client-id": "c"})
    alice = [FilterComponent("user", MatchType.EXACT, "alice")]

    assert len(quotas.find_entities(alice, strict=False)) == 2
    assert [entity for entity, _ in quotas.find_entities(alice, strict=True)] == [ALICE]
