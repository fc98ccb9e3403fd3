"""Checks of consumers: polls, positions, groups, events."""

from __future__ import annotations

import time
from contextlib import suppress

from mockbroker.certify.check.model import GROUP, LATE_MS, TOPIC, Check, CheckRun
from mockbroker.certify.driver.failure import ClientError
from mockbroker.certify.driver.handles import ConsumerHandle
from mockbroker.certify.driver.messages import Committed, PartitionsAssigned, PartitionsRevoked

_TIMESTAMP = 1_700_000_000_000


def poll_records(run: CheckRun) -> None:
    """Two assigned partitions: the fields of a record, a poll that returns early, and one that returns nothing."""
    headers = [("h", "x"), ("h", None)]
    run.cluster.produce(TOPIC, "é", key="k", headers=headers, partition=0, timestamp_ms=_TIMESTAMP)
    run.fill("b", partition=1)
    consumer = run.clients.consumer()
    consumer.assign((TOPIC, 0, "earliest"), (TOPIC, 1, "earliest"))
    began = time.monotonic()
    polled = sorted(run.poll(consumer, 2).records, key=lambda each: each.partition)
    places = [(each.partition, each.offset) for each in polled]
    run.expect(places == [(0, 0), (1, 0)], f"assign of two partitions: records (partition, offset) {places}")
    record = polled[0]
    run.expect(time.monotonic() - began < 5, "poll: returns as soon as there are records; it took the whole time")
    seen = (record.topic, record.partition, record.offset, record.key, record.value)
    run.expect(seen == (TOPIC, 0, 0, "k", "é"), f"poll: the record {(TOPIC, 0, 0, 'k', 'é')} came as {seen}")
    run.expect(record.headers == (("h", "x"), ("h", None)), f"poll: headers h='x', h=null came as {record.headers}")
    run.expect(record.timestamp == _TIMESTAMP, f"poll: timestamp {_TIMESTAMP} came as {record.timestamp}")
    began = time.monotonic()
    more = consumer.poll(timeout_ms=300).records
    took_ms = (time.monotonic() - began) * 1000
    run.expect(not more, f"poll: at the end of the log came {len(more)} records")
    run.expect(took_ms >= 200, f"poll: without records it returned after {took_ms:.0f} of 300 ms")
    run.expect(took_ms < 300 + LATE_MS, f"poll: without records it returned after {took_ms:.0f} of 300 ms")


def seek(run: CheckRun) -> None:
    """A position is set, also by `assign`."""
    run.fill("a", "b", "c")
    consumer = run.clients.consumer()
    consumer.assign((TOPIC, 0, 1))
    values = run.poll(consumer, 2).values
    run.expect(values == ["b", "c"], f"assign at offset 1: records {values} instead of b, c")
    consumer.seek(TOPIC, 0, 2)
    values = run.poll(consumer, 1).values
    run.expect(values == ["c"], f"seek to offset 2: records {values} instead of c")


def pause(run: CheckRun) -> None:
    """Records of a paused partition do not come until it is resumed."""
    run.fill("a")
    consumer = run.clients.consumer()
    consumer.assign((TOPIC, 0, "earliest"))
    consumer.pause((TOPIC, 0))
    values = consumer.poll(timeout_ms=700).values
    run.expect(not values, f"pause: records {values} of the paused partition came")
    consumer.resume((TOPIC, 0))
    run.poll(consumer, 1)


def commit(run: CheckRun) -> None:
    """Offsets: commit of given ones and of positions, committed, position, an asynchronous commit."""
    run.fill("a", "b")
    consumer = run.group_consumer()
    run.subscribe(consumer)
    run.poll(consumer, 2)
    position = consumer.position(TOPIC, 0)
    run.expect(position == 2, f"position: {position} after two records; 2 is expected")
    run.expect(consumer.committed(TOPIC, 0) is None, "committed: null is expected before the first commit")
    consumer.commit((TOPIC, 0, 1))
    run.expect(consumer.committed(TOPIC, 0) == 1, "commit of offset 1, committed: another offset")
    consumer.commit()
    run.expect(consumer.committed(TOPIC, 0) == 2, "commit without offsets, committed: not the position, 2")
    consumer.commit_async()
    deadline = time.monotonic() + 5
    while not consumer.poll(timeout_ms=200).events_of(Committed):
        run.expect(time.monotonic() < deadline, "commit_async: no event `committed` within 5 s")


def join_group(run: CheckRun, consumer: ConsumerHandle, api: str, *, has_events: bool) -> None:
    """Subscribe, get the assignment, close."""
    run.fill("a")
    run.subscribe(consumer)
    polled = run.poll(consumer, 1)
    run.expect(run.cluster.requests(api, group=GROUP), f"subscribe: no {api} was sent")
    expected = {(TOPIC, 0), (TOPIC, 1)}
    assigned = consumer.assignment()
    run.expect(assigned == expected, f"assignment: {sorted(assigned)} instead of {sorted(expected)}")
    if has_events:
        run.expect(polled.events_of(PartitionsAssigned), "poll: no event `assigned` came with the assignment")
    events = consumer.close().events
    if has_events:
        revoked = any(isinstance(event, PartitionsRevoked) for event in events)
        run.expect(revoked, "close: its result has no event `revoked`, though the consumer had partitions")


def unsubscribe(run: CheckRun) -> None:
    """The assignment is empty after it, at once or after a poll."""
    run.fill("a")
    consumer = run.group_consumer()
    run.subscribe(consumer)
    run.poll(consumer, 1)
    consumer.unsubscribe()
    deadline = time.monotonic() + 5
    while consumer.assignment():
        run.expect(time.monotonic() < deadline, "assignment: not empty 5 s after unsubscribe")
        with suppress(ClientError):  # Some clients refuse a poll without a subscription.
            consumer.poll(timeout_ms=100)


def classic(run: CheckRun) -> None:
    """A member of a classic group."""
    consumer = run.group_consumer()
    has_events = "consumer.rebalance_events" in run.clients.hello.capabilities
    join_group(run, consumer, "JoinGroup", has_events=has_events)


def kip848(run: CheckRun) -> None:
    """A member of a group of KIP-848."""
    consumer = run.group_consumer(group_protocol="consumer")
    has_events = "consumer.rebalance_events" in run.clients.hello.capabilities
    join_group(run, consumer, "ConsumerGroupHeartbeat", has_events=has_events)


def pattern(run: CheckRun) -> None:
    """A subscription by a regular expression."""
    run.fill("a")
    consumer = run.group_consumer()
    consumer.subscribe(pattern="^ord.*")
    run.poll(consumer, 1)


def wakeup(run: CheckRun) -> None:
    """A poll is ended from another thread."""
    consumer = run.clients.consumer()
    consumer.assign((TOPIC, 0, "earliest"))
    began = time.monotonic()
    consumer.poll(timeout_ms=8000, wakeup_after_ms=500)
    run.expect(time.monotonic() - began < 5, "poll: with wakeup_after_ms 500 it took the whole time of 8 s")


CONSUMER_CHECKS = (
    Check("assign, poll", ("consumer.assign",), poll_records),
    Check("seek", ("consumer.assign", "consumer.seek"), seek),
    Check("pause, resume", ("consumer.assign", "consumer.pause"), pause),
    Check("commit, commit_async, committed, position", ("consumer.classic", "consumer.offsets"), commit),
    Check("subscribe, assignment, close (classic)", ("consumer.classic",), classic),
    Check("subscribe, assignment, close (KIP-848)", ("consumer.kip848",), kip848),
    Check("unsubscribe", ("consumer.classic",), unsubscribe),
    Check("subscribe by pattern", ("consumer.classic", "consumer.pattern"), pattern),
    Check("wakeup", ("consumer.assign", "consumer.wakeup"), wakeup),
)
