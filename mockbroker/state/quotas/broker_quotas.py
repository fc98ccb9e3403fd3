"""`BrokerQuotas`: the rates of one broker's clients, against the quotas of the cluster."""

from __future__ import annotations

from mockbroker.state.metadata.client_quotas import ClientQuotas
from mockbroker.state.quotas.throttles import RateThrottle
from mockbroker.state.quotas.windowed_rate import QuotaWindows


class BrokerQuotas:
    """What a broker counts of its clients; another broker, and this one after a restart, count from the beginning.

    windows: `quota.window.num` and `quota.window.size.seconds`. produced, fetched: bytes. request_time: percent of one
    thread.
    """

    def __init__(self, quotas: ClientQuotas, windows: QuotaWindows) -> None:
        self.produced = RateThrottle(quotas, "producer_byte_rate", windows)
        self.fetched = RateThrottle(quotas, "consumer_byte_rate", windows)
        self.request_time = RateThrottle(quotas, "request_percentage", windows, throttle_max_ms=windows.size_ms)
