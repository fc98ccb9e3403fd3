"""Quotas for tests: set at a `Broker`, and requests that use a known part of them."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from tests.support.brokers.broker import Broker


def quota_change(entity: Mapping[str, str | None], key: str, value: float | None) -> AlterClientQuotasRequest:
    """The request that sets a quota of an entity, or removes it for None."""
    change = OpData(key, value or 0.0, remove=value is None)
    parts = [EntityData(kind, name) for kind, name in entity.items()]
    return AlterClientQuotasRequest([AlterClientQuotasRequestEntryData(parts, [change])])


def set_quota(broker: Broker, entity: Mapping[str, str | None], key: str, value: float | None) -> None:
    """Set a quota of an entity by a connection of its own, or remove it for None."""
    response = broker.call(quota_change(entity, key, value), 1, connection="quota-admin")
    assert response.entries[0].error_code == 0


def limit_client(broker: Broker, key: str, value: float | None, *, connection: str = "a") -> None:
    """Set a quota of the client that uses a connection."""
    set_quota(broker, {"client-id": f"client-{connection}"}, key, value)
