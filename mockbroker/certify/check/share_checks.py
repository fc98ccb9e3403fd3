"""Checks of share consumers: delivery, acknowledgements, commits and their results."""

from __future__ import annotations

import time

from mockbroker.certify.check.model import GROUP, TOPIC, Check, CheckRun
from mockbroker.certify.driver.handles import ShareConsumerHandle
from mockbroker.certify.driver.messages import Acknowledged


def _explicit(run: CheckRun) -> ShareConsumerHandle:
    consumer = run.clients.share_consumer(group_id=GROUP, share_acknowledgement_mode="explicit")
    consumer.subscribe(TOPIC)
    run.join_share_group(consumer)
    return consumer


def wait_until_accepted(run: CheckRun, consumer: ShareConsumerHandle) -> None:
    """Poll until the first record is accepted at the broker, 5 seconds at most. Raises: Problem."""
    deadline = time.monotonic() + 5
    while (view := run.cluster.share_partition(GROUP, TOPIC, 0)) is None or view.start_offset < 1:
        run.expect(time.monotonic() < deadline, "poll: 5 s after the record was accepted, it is not so at the broker")
        consumer.poll(timeout_ms=100)


def implicit(run: CheckRun) -> None:
    """Records that were polled are accepted by the next poll."""
    consumer = run.clients.share_consumer(group_id=GROUP)
    consumer.subscribe(TOPIC)
    run.join_share_group(consumer)
    run.fill("a")
    values = run.poll(consumer, 1).values
    run.expect(values == ["a"], f"poll: records {values} instead of a")
    wait_until_accepted(run, consumer)


def explicit(run: CheckRun) -> None:
    """Records are released, then rejected or accepted."""
    consumer = _explicit(run)
    run.fill("a")
    [record] = run.poll(consumer, 1).records
    consumer.acknowledge(record, "release")
    [again] = run.poll(consumer, 1).records
    run.expect(again.offset == record.offset, f"acknowledge release: offset {again.offset} came next, not the same")
    if "share.delivery_count" in run.clients.hello.capabilities:
        counts = [record.delivery_count, again.delivery_count]
        run.expect(counts == [1, 2], f"poll: delivery_count {counts} of two deliveries; [1, 2] is expected")
    consumer.acknowledge(again, "accept")
    wait_until_accepted(run, consumer)


def commit(run: CheckRun) -> None:
    """A commit has a result for each partition."""
    consumer = _explicit(run)
    run.fill("a")
    consumer.acknowledge(run.poll(consumer, 1).records)
    results = consumer.commit()
    run.expect(results == {(TOPIC, 0): None}, f"commit: the result is {results}; orders-0 without an error is expected")


def callback(run: CheckRun) -> None:
    """The results of acknowledgements arrive as events."""
    consumer = _explicit(run)
    run.fill("a")
    consumer.acknowledge(run.poll(consumer, 1).records)
    consumer.commit_async()
    deadline = time.monotonic() + 5
    events: list[Acknowledged] = []
    while not events:
        run.expect(time.monotonic() < deadline, "commit_async: no event `acknowledged` within 5 s")
        events = consumer.poll(timeout_ms=200).events_of(Acknowledged)
    seen = (events[0].topic, events[0].partition, events[0].offsets, events[0].error)
    run.expect(seen == (TOPIC, 0, (0,), None), f"event `acknowledged`: {seen} instead of orders, 0, [0], null")


def renew(run: CheckRun) -> None:
    """The lock of a record is renewed, before the record is accepted."""
    consumer = _explicit(run)
    run.fill("a")
    records = run.poll(consumer, 1).records
    consumer.acknowledge(records, "renew")
    consumer.commit()
    # A client may return renewed records again, as Apache Kafka's own does, or let the application keep them.
    consumer.acknowledge(consumer.poll(timeout_ms=500).records or records, "accept")
    results = consumer.commit()
    run.expect(results.get((TOPIC, 0)) is None, f"acknowledge accept after renew: {results}")


def lock_timeout(run: CheckRun) -> None:
    """The acquisition lock timeout of the group is shown."""
    consumer = _explicit(run)
    run.fill("a")
    consumer.acknowledge(run.poll(consumer, 1).records)
    shown = consumer.lock_timeout()
    run.expect(shown == 30_000, f"lock_timeout: {shown} instead of 30000, the group's")


def wakeup(run: CheckRun) -> None:
    """A poll is ended from another thread."""
    consumer = _explicit(run)
    began = time.monotonic()
    consumer.poll(timeout_ms=8000, wakeup_after_ms=500)
    run.expect(time.monotonic() - began < 5, "poll: with wakeup_after_ms 500 it took the whole time of 8 s")


SHARE_CHECKS = (
    Check("subscribe, poll (share)", ("share",), implicit),
    Check("acknowledge (share)", ("share.explicit",), explicit),
    Check("commit (share)", ("share.explicit", "share.commit"), commit),
    Check("commit_async (share)", ("share.explicit", "share.callback"), callback),
    Check("acknowledge renew", ("share.explicit", "share.commit", "share.renew"), renew),
    Check("lock_timeout", ("share.explicit", "share.lock_timeout"), lock_timeout),
    Check("wakeup (share)", ("share.explicit", "share.wakeup"), wakeup),
)
