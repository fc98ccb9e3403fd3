"""New connections: limits of the broker, its listeners and single addresses, by hand-computed rates."""

from __future__ import annotations

import pytest

from mockbroker.state.metadata.client_quotas import IP, ClientQuotas, make_entity
from mockbroker.state.quotas.connection_rates import AddressLimits, ConnectionRates, canonical_address
from mockbroker.state.quotas.windowed_rate import QuotaWindows

_START_MS = 1_790_000_000_000
_UNLIMITED = 2**31 - 1


def _set(quotas: ClientQuotas, address: str | None, limit: float | None) -> None:
    quotas.set_quotas(make_entity({IP: address}), {} if limit is None else {"connection_creation_rate": limit})


def _rates(
    quotas: ClientQuotas | None = None,
    *,
    broker: int = _UNLIMITED,
    listeners: dict[str, int] | None = None,
    protected: str = "",
) -> ConnectionRates:
    by_name = listeners or {}
    return ConnectionRates(
        AddressLimits(quotas or ClientQuotas()),
        QuotaWindows(),
        find_rate=lambda name: broker if name is None else by_name.get(name, _UNLIMITED),
        is_protected=lambda name: name == protected,
    )


def test_connections_of_an_address_are_limited_and_refused_ones_do_not_count() -> None:
    quotas = ClientQuotas()
    _set(quotas, None, 1)
    _set(quotas, "10.0.0.9", 100)
    rates = _rates(quotas)
    times = [rates.record_address("10.0.0.1", "A", now_ms=_START_MS) for _ in range(30)]

    assert times == [0] * 10 + [1000] * 20
    assert rates.record_address("10.0.0.9", "A", now_ms=_START_MS) == 0
    assert rates.record_address("10.0.0.1", "A", now_ms=_START_MS + 11_000) == 0


def test_connections_are_free_without_a_limit() -> None:
    rates = _rates()

    assert [rates.record_address("10.0.0.1", "A", now_ms=_START_MS) for _ in range(100)] == [0] * 100
    assert [rates.record_at_listener("A", now_ms=_START_MS) for _ in range(100)] == [0] * 100


def test_a_listener_waits_for_its_own_limit_or_that_of_the_broker_whichever_takes_longer() -> None:
    of_listener, of_broker = _rates(listeners={"A": 2}), _rates(broker=4, listeners={"A": 5})
    own = [of_listener.record_at_listener("A", now_ms=_START_MS) for _ in range(22)]
    other = of_listener.record_at_listener("B", now_ms=_START_MS)
    shared = [of_broker.record_at_listener("A", now_ms=_START_MS) for _ in range(42)]

    # (21 / 10 - 2) / 2 * 10 s, and one more.
    assert own == [0] * 20 + [500, 1000]
    assert other == 0
    assert shared == [0] * 40 + [250, 500]


def test_no_connection_waits_longer_than_a_window() -> None:
    assert [_rates(broker=0).record_at_listener("A", now_ms=_START_MS) for _ in range(2)] == [1000, 1000]
    rates = _rates(broker=1)

    assert max(rates.record_at_listener("A", now_ms=_START_MS) for _ in range(100)) == 1000


def test_the_limit_of_the_broker_is_not_for_the_listener_of_other_brokers() -> None:
    rates = _rates(broker=1, protected="INTERNAL")

    assert [rates.record_at_listener("INTERNAL", now_ms=_START_MS) for _ in range(50)] == [0] * 50
    assert [rates.record_at_listener("A", now_ms=_START_MS) for _ in range(11)] == [0] * 10 + [1000]


def test_a_connection_that_its_address_may_not_open_does_not_count_for_the_listener() -> None:
    quotas = ClientQuotas()
    _set(quotas, "10.0.0.1", 1)
    rates = _rates(quotas, broker=2)
    for _ in range(20):  # Half of them are refused.
        rates.record_at_listener("A", now_ms=_START_MS)
        rates.record_address("10.0.0.1", "A", now_ms=_START_MS)

    assert [rates.record_at_listener("A", now_ms=_START_MS) for _ in range(11)] == [0] * 10 + [500]


@pytest.mark.parametrize("text", ["localhost", "127.1", "127.0.0.1", "2130706433", "127.0.1", "::ffff:127.0.0.1"])
def test_the_texts_of_one_address_have_one_limit(text: str) -> None:
    quotas = ClientQuotas()
    _set(quotas, text, 7)
    limits = AddressLimits(quotas)

    assert limits.find("127.0.0.1") == 7
    assert limits.find("127.0.0.2") is None


def test_addresses_of_the_next_protocol_have_one_text() -> None:
    assert {canonical_address(text) for text in ("::1", "[::1]", "0:0:0:0:0:0:0:1")} == {"::1"}


def test_limits_follow_each_change() -> None:
    quotas = ClientQuotas()
    limits = AddressLimits(quotas)
    seen = [limits.find("10.0.0.1")]
    for address, limit in ((None, 5.0), ("10.0.0.1", 9.0), ("10.0.0.1", None), (None, None)):
        _set(quotas, address, limit)
        seen.append(limits.find("10.0.0.1"))

    assert seen == [None, 5.0, 9.0, 5.0, None]
    assert not limits
