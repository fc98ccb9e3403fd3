"""The precedence of quotas, from the most specific entity to the defaults."""

from __future__ import annotations

import itertools

import pytest

from mockbroker.state.metadata.client_quotas import CLIENT_ID, USER, ClientQuotas, make_entity
from mockbroker.state.quotas.quota_lookup import ClientIdentity, find_client_quota

_KEY = "producer_byte_rate"
#: The documented order, with who counts together.
_ORDER: list[tuple[dict[str, str | None], ClientIdentity]] = [
    ({USER: "u", CLIENT_ID: "c"}, ClientIdentity("u", "c")),
    ({USER: "u", CLIENT_ID: None}, ClientIdentity("u", "c")),
    ({USER: "u"}, ClientIdentity("u", "")),
    ({USER: None, CLIENT_ID: "c"}, ClientIdentity("u", "c")),
    ({USER: None, CLIENT_ID: None}, ClientIdentity("u", "c")),
    ({USER: None}, ClientIdentity("u", "")),
    ({CLIENT_ID: "c"}, ClientIdentity("", "c")),
    ({CLIENT_ID: None}, ClientIdentity("", "c")),
]


@pytest.mark.parametrize(
    "ranks", [ranks for count in (1, 2, 3, 8) for ranks in itertools.combinations(range(8), count)]
)
def test_the_first_entity_in_kafkas_order_counts(ranks: tuple[int, ...]) -> None:
    quotas = ClientQuotas()
    for rank in ranks:
        quotas.set_quotas(make_entity(_ORDER[rank][0]), {_KEY: rank + 1.0})
    found = find_client_quota(quotas, _KEY, user="u", client_id="c")

    assert found == (_ORDER[ranks[0]][1], ranks[0] + 1.0)


def test_other_clients_have_no_quota_of_these_names() -> None:
    quotas = ClientQuotas()
    for names, _ in _ORDER:
        if None not in names.values():
            quotas.set_quotas(make_entity(names), {_KEY: 1.0})

    assert find_client_quota(quotas, _KEY, user="other", client_id="other") == (ClientIdentity("", "other"), None)
    assert find_client_quota(quotas, "consumer_byte_rate", user="u", client_id="c") is None


def test_a_level_whose_quotas_are_removed_counts_no_more() -> None:
    quotas = ClientQuotas()
    users = [make_entity({USER: name}) for name in ("u", "v")]
    for entity in users:
        quotas.set_quotas(entity, {_KEY: 1.0, "request_percentage": 5.0})
    quotas.set_quotas(users[0], {"request_percentage": 7.0})
    levels = [quotas.levels_of(_KEY)]
    quotas.set_quotas(users[1], {"request_percentage": 7.0})
    levels.append(quotas.levels_of(_KEY))

    assert levels == [{(USER,)}, set()]
    assert find_client_quota(quotas, _KEY, user="u", client_id="c") is None
    assert find_client_quota(quotas, "request_percentage", user="u", client_id="c") == (ClientIdentity("u", ""), 7.0)


@pytest.mark.parametrize("level", [{USER: "u"}, {USER: "u", CLIENT_ID: None}, {CLIENT_ID: None}])
def test_a_client_without_an_id_has_no_quota_of_client_ids(level: dict[str, str | None]) -> None:
    quotas = ClientQuotas()
    quotas.set_quotas(make_entity(level), {_KEY: 1.0})
    found = find_client_quota(quotas, _KEY, user="u", client_id="")

    assert found is not None
    assert found.limit == (1.0 if level == {USER: "u"} else None)
