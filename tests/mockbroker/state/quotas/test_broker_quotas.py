"""The rates of one broker: each has the quota of its key, and that of times is limited to a window."""

from __future__ import annotations

from mockbroker.state.metadata.client_quotas import CLIENT_ID, ClientQuotas, make_entity
from mockbroker.state.quotas.broker_quotas import BrokerQuotas
from mockbroker.state.quotas.windowed_rate import QuotaWindows


def test_each_rate_has_its_own_quota_and_only_times_are_limited_to_a_window() -> None:
    quotas = ClientQuotas()
    limits = {"producer_byte_rate": 1.0, "consumer_byte_rate": 2.0, "request_percentage": 4.0}
    quotas.set_quotas(make_entity({CLIENT_ID: "app"}), limits)
    broker = BrokerQuotas(quotas, QuotaWindows())
    times = [
        rates.record(200, user="u", client_id="app", now_ms=1_000_000)
        for rates in (broker.produced, broker.fetched, broker.request_time)
    ]

    # 200 in 10 seconds are a rate of 20: (20 - 1) / 1 * 10 s, (20 - 2) / 2 * 10 s, and (20 - 4) / 4 * 10 s.
    assert times == [190_000, 90_000, 1000]
