"""Throttle times: the same as Kafka's for thousands of recorded operations, and their properties."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mockbroker.state.metadata.client_quotas import CLIENT_ID, USER, ClientQuotas, make_entity
from mockbroker.state.quotas import throttles
from mockbroker.state.quotas.throttles import IDLE_MS, MutationThrottle, RateThrottle
from mockbroker.state.quotas.windowed_rate import QuotaWindows
from tools.oracle.quota_throttles import QuotaResult, load_recording

_KEYS = {"fetch": "consumer_byte_rate", "request": "request_percentage", "mutation": "controller_mutation_rate"}
_START_MS = 1_790_000_000_000


class _Manager:
    """The throttle that replaces one of Kafka's quota managers."""

    def __init__(self, kind: str, window_count: int, window_s: int) -> None:
        self._key = _KEYS[kind]
        self.quotas = ClientQuotas()
        windows = QuotaWindows(window_count, window_s * 1000)
        self.mutations = MutationThrottle(self.quotas, windows)
        longest_ms = windows.size_ms if kind == "request" else None
        self.rates = RateThrottle(self.quotas, self._key, windows, throttle_max_ms=longest_ms)
        self._is_mutation = kind == "mutation"

    def set_quota(self, user: str, client: str, value: str) -> None:
        names = {
            kind: None if name == "*" else name for kind, name in ((USER, user), (CLIENT_ID, client)) if name != "-"
        }
        self.quotas.set_quotas(make_entity(names), {} if value == "-" else {self._key: float(value)})

    def count(self, word: str, user: str, client: str, value: float, now_ms: int) -> str:
        if word == "back":
            self.rates.take_back(value, user=user, client_id=client, now_ms=now_ms)
            return "0"
        if not self._is_mutation:
            return str(self.rates.record(value, user=user, client_id=client, now_ms=now_ms))
        if word == "strict":
            wait_ms = self.mutations.try_record(value, user=user, client_id=client, now_ms=now_ms)
            return "0" if wait_ms is None else f"refused {wait_ms}"
        return str(self.mutations.record(value, user=user, client_id=client, now_ms=now_ms))


def _run(manager: _Manager, words: tuple[str, ...]) -> str:
    match words:
        case ("set", user, client, value):
            manager.set_quota(user, client, value)
            return "-"
        case ("max", user, client):
            limit = manager.rates.value_max(user=user, client_id=client)
            # Kafka's limit where there is no quota: the largest long, or the largest double, by the windows.
            return "none" if math.isinf(limit) else str(limit)
        case (word, user, client, value, now):
            return manager.count(word, user, client, float(value), int(now))
    raise AssertionError(words)


def _expected(row: QuotaResult) -> str:
    if row.words[0] != "max":
        return row.result
    return "none" if float(row.result) > 1e15 else str(float(row.result))


@pytest.mark.parametrize("kind", _KEYS)
def test_the_throttle_times_of_kafka(kind: str) -> None:
    manager, compared, current = None, Counter[str](), ""
    for row in load_recording():
        if row.words[0] == "new":
            current = row.words[1]
            manager = _Manager(current, int(row.words[2]), int(row.words[3]))
        elif current == kind:
            assert manager is not None
            result = _run(manager, row.words)
            assert result == _expected(row), (row.words, compared)
            compared[row.words[0] if result in {"-", "0", "none"} else f"{row.words[0]} with a limit"] += 1

    assert compared["record with a limit"] > 100
    assert compared["strict with a limit"] > 100 or kind != "mutation"
    assert compared["max with a limit"] > 100 or kind == "mutation"


def _client_quotas(key: str, limit: float) -> ClientQuotas:
    quotas = ClientQuotas()
    quotas.set_quotas(make_entity({CLIENT_ID: None}), {key: limit})
    return quotas


@given(
    values=st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 3000)), min_size=1, max_size=60),
    limits=st.tuples(st.integers(1, 5000), st.integers(0, 5000)),
)
def test_a_larger_quota_never_throttles_longer_and_no_rest_is_longer_than_all_windows(
    values: list[tuple[int, int]], limits: tuple[int, int]
) -> None:
    windows, now_ms = QuotaWindows(), _START_MS
    small, large = (
        RateThrottle(_client_quotas("producer_byte_rate", limit), "producer_byte_rate", windows)
        for limit in (limits[0], sum(limits))
    )
    for value, pause_ms in values:
        now_ms += pause_ms
        times = [one.record(value, user="u", client_id="c", now_ms=now_ms) for one in (small, large)]
        assert times[0] >= times[1] >= 0

    assert small.record(0, user="u", client_id="c", now_ms=now_ms + windows.span_ms) == 0


def test_what_is_taken_back_is_as_if_it_had_not_been_recorded() -> None:
    throttle = RateThrottle(_client_quotas("consumer_byte_rate", 100), "consumer_byte_rate", QuotaWindows())
    throttled_ms = throttle.record(5000, user="u", client_id="c", now_ms=_START_MS)
    throttle.take_back(5000, user="u", client_id="c", now_ms=_START_MS)

    assert throttled_ms == 40_000
    assert throttle.record(1000, user="u", client_id="c", now_ms=_START_MS) == 0


def test_without_any_quota_nothing_is_counted() -> None:
    throttle = RateThrottle(ClientQuotas(), "consumer_byte_rate", QuotaWindows())

    assert throttle.record(1e12, user="u", client_id="c", now_ms=_START_MS) == 0
    assert throttle.value_max(user="u", client_id="c") == math.inf
    assert throttle.client_count == 0


def test_the_number_of_clients_that_are_counted_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttles, "CLIENTS_MAX", 3)
    throttle = RateThrottle(_client_quotas("consumer_byte_rate", 1), "consumer_byte_rate", QuotaWindows())
    first_ms = throttle.record(100, user="u", client_id="0", now_ms=_START_MS)
    for number in range(1, 50):
        throttle.record(100, user="u", client_id=str(number), now_ms=_START_MS)

    assert throttle.client_count == 3
    assert throttle.record(100, user="u", client_id="0", now_ms=_START_MS) == first_ms


def test_an_idle_client_is_forgotten_after_an_hour() -> None:
    throttle = RateThrottle(_client_quotas("consumer_byte_rate", 1), "consumer_byte_rate", QuotaWindows())
    throttle.record(1, user="u", client_id="a", now_ms=_START_MS)
    throttle.record(1, user="u", client_id="b", now_ms=_START_MS + IDLE_MS)
    kept = throttle.client_count
    throttle.record(1, user="u", client_id="b", now_ms=_START_MS + IDLE_MS + 1)

    assert (kept, throttle.client_count) == (2, 1)
