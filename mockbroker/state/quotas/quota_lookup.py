"""Which quota a client has: of its user and client id, of its user, of its client id, or of a default.

Source: ClientQuotaManager and its DefaultQuotaCallback in Kafka 4.4.0.
"""

from __future__ import annotations

from typing import NamedTuple

from mockbroker.state.metadata.client_quotas import CLIENT_ID, USER, ClientQuotas, QuotaEntity, make_entity

#: The types of entities with a quota, in alphabetical order.
_CLIENT_LEVEL, _USER_LEVEL, _BOTH_LEVEL = (CLIENT_ID,), (USER,), (CLIENT_ID, USER)


class ClientIdentity(NamedTuple):
    """Whose requests count together: those of a user, of a client id, or of both; "" stands for any."""

    user: str
    client_id: str


class ClientQuota(NamedTuple):
    """The quota of a client. limit: None without one."""

    identity: ClientIdentity
    limit: float | None


def find_client_quota(quotas: ClientQuotas, key: str, *, user: str, client_id: str) -> ClientQuota | None:
    """The quota of a client for a key, as "producer_byte_rate"; None if no entity has one, and nothing is counted.

    Where entities of one level only have one, all clients are counted at that level.
    """
    levels = quotas.levels_of(key)
    if not levels:
        return None
    if levels == {_CLIENT_LEVEL}:
        identity = ClientIdentity("", client_id)
    elif levels == {_USER_LEVEL}:
        identity = ClientIdentity(user, "")
    elif levels == {_BOTH_LEVEL}:
        identity = ClientIdentity(user, client_id)
    else:
        identity = _most_specific(quotas, key, user, client_id)
    return ClientQuota(identity, _find_limit(quotas, key, identity))


def _most_specific(quotas: ClientQuotas, key: str, user: str, client_id: str) -> ClientIdentity:
    """The identity at the first level that has a quota for the client."""
    both, of_user = ClientIdentity(user, client_id), ClientIdentity(user, "")
    for entity, identity in (
        (_entity(user=user, client_id=client_id), both),
        (_entity(user=user, client_id=None), both),
        (_entity(user=user), of_user),
        (_entity(user=None, client_id=client_id), both),
        (_entity(user=None, client_id=None), both),
        (_entity(user=None), of_user),
    ):
        if quotas.find_value(entity, key) is not None:
            return identity
    return ClientIdentity("", client_id)


def _find_limit(quotas: ClientQuotas, key: str, identity: ClientIdentity) -> float | None:
    """The first quota of an identity: with its names, then with defaults in place of the client id and the user."""
    user, client_id = identity
    if user and client_id:
        entities = [
            _entity(user=user, client_id=client_id),
            _entity(user=user, client_id=None),
            _entity(user=None, client_id=client_id),
            _entity(user=None, client_id=None),
        ]
    elif user:
        entities = [_entity(user=user), _entity(user=None)]
    elif client_id:
        entities = [make_entity({CLIENT_ID: client_id}), make_entity({CLIENT_ID: None})]
    else:
        entities = []
    limits = (quotas.find_value(entity, key) for entity in entities)
    return next((limit for limit in limits if limit is not None), None)


def _entity(*, user: str | None, client_id: str | None = "") -> QuotaEntity:
    """The entity of a user and a client id, None for the default; of the user alone without client id."""
    names = {USER: user} if client_id == "" else {USER: user, CLIENT_ID: client_id}
    return make_entity(names)
