"""Typed handles: the requests that they make, and polls that wait."""

from __future__ import annotations

from typing import Any

import pytest

from mockbroker.certify.driver import messages as m
from mockbroker.certify.driver.handles import ConsumerHandle, Polled, ProducerHandle, ShareConsumerHandle
from mockbroker.certify.expectations import ExpectationFailed

RECORD = m.ConsumedRecord(topic="orders", partition=0, offset=0, key=None, value="a")


class Caller:
    """Records calls, and answers each with the next of the given results, the last one again and again."""

    def __init__(self, *results: m.Value) -> None:
        self.calls: list[tuple[str, Any]] = []
        self._results = list(results)

    def __call__(self, method: str, params: m.Value, result_type: Any, timeout_ms: int) -> Any:
        self.calls.append((method, params))
        return self._results.pop(0) if len(self._results) > 1 else self._results[0]


def test_send_takes_values_and_records() -> None:
    caller = Caller(m.SendResult(deliveries=()))

    ProducerHandle("p", caller).send("orders", "a", None, m.SendRecord(value="b", key="k"), partition=1)

    [(method, params)] = caller.calls
    assert method == "send"
    assert [(record.key, record.value) for record in params.records] == [(None, "a"), (None, None), ("k", "b")]
    assert (params.partition, params.timeout_ms) == (1, 10_000)


def test_assign_takes_places_with_and_without_an_offset() -> None:
    caller = Caller(m.Nothing())

    ConsumerHandle("c", caller).assign(("orders", 0), ("orders", 1, "latest"), ("orders", 2, 5))

    assert [each.offset for each in caller.calls[0][1].partitions] == [None, "latest", 5]


def test_poll_until_collects_records_and_events_of_several_polls() -> None:
    committed = m.Committed()
    caller = Caller(m.PollResult(events=(committed,)), m.PollResult(records=(RECORD,)))

    polled = ConsumerHandle("c", caller).poll_until(records=2)

    assert (polled.values, polled.offsets) == (["a", "a"], [0, 0])
    assert polled.events_of(m.Committed) == [committed]
    assert polled.events_of(m.Acknowledged) == []


def test_poll_until_fails_with_what_came() -> None:
    caller = Caller(m.PollResult(records=(RECORD,)))

    with pytest.raises(ExpectationFailed, match=r"polls of c return .* within 0 s; seen: 0 records"):
        ConsumerHandle("c", caller).poll_until(lambda polled: polled.values == ["b"], timeout_s=0)


def test_the_limit_of_polls_is_multiplied_where_timers_are_longer() -> None:
    consumer = ConsumerHandle("c", Caller(*[m.PollResult()] * 2))
    consumer.time_factor = 1e-9

    with pytest.raises(ExpectationFailed, match=r"polls of c return 1 records within 1e-08 s"):
        consumer.poll_until(records=1, timeout_s=10)


def test_poll_until_needs_one_condition() -> None:
    with pytest.raises(TypeError, match="give a condition, or a number of records"):
        ConsumerHandle("c", Caller(m.PollResult())).poll_until()


def test_a_share_commit_returns_errors_by_partition() -> None:
    error = m.ErrorInfo(name="INVALID_RECORD_STATE")
    rows = (m.PartitionError(topic="a", partition=0), m.PartitionError(topic="a", partition=1, error=error))

    results = ShareConsumerHandle("s", Caller(m.CommitResult(partitions=rows))).commit()

    assert results == {("a", 0): None, ("a", 1): error}


def test_acknowledge_names_the_records() -> None:
    caller = Caller(m.Nothing())

    ShareConsumerHandle("s", caller).acknowledge([RECORD], "release")

    [given] = caller.calls[0][1].records
    assert (given.topic, given.partition, given.offset, given.type) == ("orders", 0, 0, "release")


def test_close_returns_the_events_that_came() -> None:
    revoked = m.PartitionsRevoked(partitions=())
    handle = ConsumerHandle("c", Caller(m.CloseResult(events=(revoked,))))

    assert handle.close() == Polled([], [revoked])
    assert not handle.is_open
