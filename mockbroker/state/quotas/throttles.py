"""How long clients are throttled: the rates of one quota by client, and the time in which each is back at its limit.

Source: ClientQuotaManager, ClientRequestQuotaManager, ControllerMutationQuotaManager and QuotaUtils of Kafka 4.4.0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from mockbroker.state.metadata.client_quotas import ClientQuotas
from mockbroker.state.quotas.quota_lookup import ClientIdentity, find_client_quota
from mockbroker.state.quotas.token_bucket import TokenBucket
from mockbroker.state.quotas.windowed_rate import QuotaWindows, WindowedRate

#: Clients without a request for so long are forgotten, as in Kafka, milliseconds.
IDLE_MS = 3_600_000
#: The maximum number of clients that are counted; beyond it the one that was idle for the longest time is forgotten.
CLIENTS_MAX = 10_000
_MS_PER_S = 1000
#: What Kafka counts with where a client has no quota: the largest long.
_UNLIMITED = float(2**63 - 1)

K = TypeVar("K", bound=Hashable)
M = TypeVar("M")


class Meters(Generic[K, M]):
    """A meter for each client, in the order of their last use."""

    def __init__(self, make_meter: Callable[[], M]) -> None:
        self._make_meter = make_meter
        self._used: dict[K, tuple[M, int]] = {}

    def __len__(self) -> int:
        return len(self._used)

    def get(self, key: K, now_ms: int) -> M:
        """The meter of a client, which is made if there is none."""
        found = self._used.pop(key, None)
        meter = self._make_meter() if found is None or now_ms - found[1] > IDLE_MS else found[0]
        self._used[key] = meter, now_ms
        while len(self._used) > CLIENTS_MAX or now_ms - self._used[next(iter(self._used))][1] > IDLE_MS:
            del self._used[next(iter(self._used))]
        return meter


class RateThrottle:
    """The byte rates or request times of clients against a quota.

    key: of the quota, "producer_byte_rate", "consumer_byte_rate" or "request_percentage". throttle_max_ms: the longest
    time, None without a limit; Kafka limits that of request times to one window.
    """

    def __init__(
        self, quotas: ClientQuotas, key: str, windows: QuotaWindows, *, throttle_max_ms: int | None = None
    ) -> None:
        self._quotas = quotas
        self._key = key
        self._windows = windows
        self._throttle_max_ms = throttle_max_ms
        self._rates: Meters[ClientIdentity, WindowedRate] = Meters(lambda: WindowedRate(windows))

    @property
    def client_count(self) -> int:
        """The number of clients that are counted."""
        return len(self._rates)

    def record(self, value: float, *, user: str, client_id: str, now_ms: int) -> int:
        """Count a value of a client. Returns: how long it is throttled, milliseconds; 0 within its quota."""
        found = find_client_quota(self._quotas, self._key, user=user, client_id=client_id)
        if found is None:
            return 0
        rate = self._rates.get(found.identity, now_ms)
        rate.record(value, now_ms)
        return find_throttle_ms(rate, found.limit, self._throttle_max_ms, now_ms)

    def take_back(self, value: float, *, user: str, client_id: str, now_ms: int) -> None:
        """Do not count a value that was recorded: a fetch that is throttled returns nothing."""
        found = find_client_quota(self._quotas, self._key, user=user, client_id=client_id)
        if found is not None:
            self._rates.get(found.identity, now_ms).record(-value, now_ms)

    def value_max(self, *, user: str, client_id: str) -> float:
        """What a client may use at once without being throttled for it alone; infinite without a quota."""
        found = find_client_quota(self._quotas, self._key, user=user, client_id=client_id)
        if found is None or found.limit is None:
            return math.inf
        return found.limit * (self._windows.window_count - 1) * (self._windows.size_ms / _MS_PER_S)


class MutationThrottle:
    """The mutations of the controller by clients against `controller_mutation_rate` (KIP-599).

    windows: `controller.quota.window.num` and `controller.quota.window.size.seconds`.
    """

    def __init__(self, quotas: ClientQuotas, windows: QuotaWindows) -> None:
        self._quotas = quotas
        self._buckets: Meters[ClientIdentity, TokenBucket] = Meters(lambda: TokenBucket(windows))

    def try_record(self, value: float, *, user: str, client_id: str, now_ms: int) -> int | None:
        """Count mutations if the client has credits left, as for newer requests.

        Returns: None if they are counted; else how long it has to wait, which may round to 0 milliseconds: the request
        is refused with THROTTLING_QUOTA_EXCEEDED.
        """
        found = self._find_bucket(user, client_id, now_ms)
        if found is None:
            return None
        bucket, limit = found
        if (tokens := bucket.measure(limit, now_ms)) < 0:
            return _refill_ms(tokens, limit)
        bucket.record(value, limit, now_ms)
        return None

    def record(self, value: float, *, user: str, client_id: str, now_ms: int) -> int:
        """Count mutations, as for older requests. Returns: how long the client is throttled, milliseconds."""
        found = self._find_bucket(user, client_id, now_ms)
        if found is None:
            return 0
        bucket, limit = found
        bucket.record(value, limit, now_ms)
        return _refill_ms(bucket.measure(limit, now_ms), limit)

    def _find_bucket(self, user: str, client_id: str, now_ms: int) -> tuple[TokenBucket, float] | None:
        found = find_client_quota(self._quotas, "controller_mutation_rate", user=user, client_id=client_id)
        if found is None:
            return None
        return self._buckets.get(found.identity, now_ms), _UNLIMITED if found.limit is None else found.limit


def _refill_ms(tokens: float, limit: float) -> int:
    """The time until there are credits again, in milliseconds."""
    return _round(-tokens / limit * _MS_PER_S) if tokens < 0 else 0


def find_throttle_ms(rate: WindowedRate, limit: float | None, max_ms: int | None, now_ms: int) -> int:
    """The time without further values after which a rate is back at its limit, in milliseconds."""
    measured = rate.measure(now_ms)
    if limit is None or measured <= limit:
        return 0
    throttle_ms = _round((measured - limit) / limit * rate.window_ms(now_ms))
    return throttle_ms if max_ms is None else min(throttle_ms, max_ms)


def _round(value: float) -> int:
    """As Math.round of Java: halves up."""
    return math.floor(value + 0.5)
