"""Errors of ListOffsets, after which the offset is asked for again."""

from __future__ import annotations

from typing import Any

from mockbroker.certify.case import Case, ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.cases.fetching.reading import Reading, read_count, read_until, require_possible
from mockbroker.journal.request_history import RequestHistory

_ERRORS = Source("Kafka protocol guide", "Error Codes, Retriable")
#: The first version of ListOffsets with OFFSET_NOT_AVAILABLE (KIP-207).
_OFFSET_NOT_AVAILABLE = 5
#: ListOffsets for the end of the log, and a Fetch request from there.
_AT_END = "topics.partitions.timestamp=-1"
_FROM_END = {"topics.partitions.fetch_offset": 1}


def _list_offsets(name: str, error: str, reason: str, *, with_epoch: bool = False) -> Case:
    """A case of an error of ListOffsets after which the offset is asked for again.

    with_epoch: brokers give it where the request has a leader epoch.
    """

    def play(run: CaseRun) -> None:
        run.produce("orders", "first")
        run.cluster.faults.add("ListOffsets", topic="orders", times=2, error=error, optional=True)
        consumer = run.consumer(auto_offset_reset="earliest")
        consumer.assign(("orders", 0, "earliest"))

        reading = read_count(run, consumer, 1)

        asked = run.wire.requests("ListOffsets")
        if not asked:
            run.not_exercised("the client reads from the start without ListOffsets")
        require_possible(run, asked[0], error, with_epoch=with_epoch)
        _judge(run, reading, "first", asked)

    play.__doc__ = f"The first two ListOffsets requests are answered with {error}."
    decorate = case(
        f"fetching.list-offsets.{name}",
        title=f"ListOffsets is refused twice with {error}",
        level=Level.MUST,
        rule=f"{reason} The consumer asks again, and then reads from the offset of the answer.",
        source=_ERRORS,
        needs=("consumer.assign",),
        settings_needed=("auto_offset_reset",),
        cluster=ClusterPlan(topics={"orders": 1}),
        decided_by=("ListOffsets",),
    )
    return decorate(play)


def _judge(run: CaseRun, reading: Reading, value: str, asked: RequestHistory[Any, Any]) -> None:
    """Expect one record, and more ListOffsets requests than the two that were refused."""
    run.expect(
        reading.values == [value],
        f'the record at the offset of the answer, "{value}"',
        seen=reading.values,
        exchanges=asked,
    )
    run.expect(len(asked) > 2, "ListOffsets is sent again", seen=f"{len(asked)} requests", exchanges=asked)
    run.should(
        not reading.errors,
        "the client asks again by itself: the application sees no error",
        seen=reading.errors,
        exchanges=asked,
    )


list_not_leader = _list_offsets("not-leader", "NOT_LEADER_OR_FOLLOWER", "The error is retriable: metadata is stale.")
list_unknown_leader_epoch = _list_offsets(
    "unknown-leader-epoch",
    "UNKNOWN_LEADER_EPOCH",
    "The error is retriable: the broker does not know the client's leader epoch yet.",
    with_epoch=True,
)


@case(
    "fetching.list-offsets.leader-not-available",
    title="ListOffsets is refused twice while the end of the log is not known",
    level=Level.MUST,
    rule="A new leader may not know yet how far its log is committed. The error is retriable: the client asks again.",
    source=Source("KIP-207", "Public Interfaces"),
    needs=("consumer.assign",),
    settings_needed=("auto_offset_reset",),
    cluster=ClusterPlan(topics={"orders": 1}),
    decided_by=("ListOffsets",),
)
def list_leader_not_available(run: CaseRun) -> None:
    """Two ListOffsets requests for the end of orders-0 are answered with OFFSET_NOT_AVAILABLE.

    Below version 5 the error is LEADER_NOT_AVAILABLE: a first consumer shows which version the client sends.
    """
    run.produce("orders", "first")
    version = _version_at_end(run)
    error = "OFFSET_NOT_AVAILABLE" if version >= _OFFSET_NOT_AVAILABLE else "LEADER_NOT_AVAILABLE"
    run.cluster.faults.add("ListOffsets", topic="orders", times=2, error=error, filter=_AT_END)
    before = run.wire.requests()[-1]
    consumer = run.consumer("refused", auto_offset_reset="latest")
    consumer.assign(("orders", 0, "latest"))
    reading = read_until(run, consumer, lambda _: run.wire.requests("Fetch", after=before).where(_FROM_END))
    run.produce("orders", "second")

    reading.extend(read_count(run, consumer, 1))

    _judge(run, reading, "second", run.wire.requests("ListOffsets", after=before, filter=_AT_END))


def _version_at_end(run: CaseRun) -> int:
    """The version of ListOffsets in which the client asks for the end of the log. Raises: NotExercised."""
    consumer = run.consumer("first", auto_offset_reset="latest")
    consumer.assign(("orders", 0, "latest"))
    read_until(run, consumer, lambda _: run.wire.requests("Fetch"))
    consumer.close()
    asked = run.wire.requests("ListOffsets", filter=_AT_END)
    if not asked:
        run.not_exercised("the client finds the end of the log without ListOffsets")
    return asked[0].api_version
