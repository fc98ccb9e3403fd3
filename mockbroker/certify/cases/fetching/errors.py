"""Errors of Fetch and ListOffsets: those that are retried, and those that the application gets."""

from __future__ import annotations

from contextlib import suppress

from mockbroker.certify.case import Case, ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.cases.fetching.reading import read_count, read_until, require_possible
from mockbroker.certify.driver.failure import ClientError
from mockbroker.certify.driver.handles import ConsumerHandle
from mockbroker.certify.seen_values import describe_seen
from mockbroker.journal import Exchange

_ERRORS = Source("Kafka protocol guide", "Error Codes, Retriable")
#: The first versions of Fetch with KAFKA_STORAGE_ERROR (KIP-112), OFFSET_NOT_AVAILABLE (KIP-392), topic ids (KIP-516).
_FETCH_STORAGE_ERRORS = 6
_FETCH_FROM_FOLLOWERS = 11
_FETCH_BY_TOPIC_ID = 13
#: A response that names no leader (KIP-951): with one a client need not ask for metadata.
_NO_LEADER = {
    "responses.partitions.current_leader.leader_id": -1,
    "responses.partitions.current_leader.leader_epoch": -1,
}


def _retried(
    name: str,
    error: str,
    reason: str,
    *,
    at: str | None = None,
    refreshes: bool = False,
    first_version: int = 0,
    with_epoch: bool = False,
) -> Case:
    """A case of an error of Fetch after which the same records are fetched again. Others: as `require_possible`."""

    def play(run: CaseRun) -> None:
        run.produce("orders", "first", "second")
        fields = _NO_LEADER if refreshes else None
        fault = run.cluster.faults.add("Fetch", topic="orders", times=2, error=error, error_at=at, set_fields=fields)
        consumer = run.consumer()
        consumer.assign(("orders", 0, "earliest"))

        reading = read_count(run, consumer, 2)

        refused = run.wire.requests("Fetch").answered(error=error)
        run.expect(refused, "a Fetch request for orders-0", seen="none")
        require_possible(run, refused[0], error, first_version=first_version, with_epoch=with_epoch)
        run.expect(
            fault.hits == 2,
            "the client fetches again until it is not refused",
            seen=f"{fault.hits} refused",
            exchanges=refused,
        )
        run.expect(
            reading.values == ["first", "second"],
            'each record once: "first", "second"',
            seen=reading.values,
            exchanges=run.wire.requests("Fetch", topic="orders"),
        )
        run.should(
            not reading.errors,
            "the client fetches again by itself: the application sees no error",
            seen=reading.errors,
            exchanges=refused,
        )
        if refreshes:
            found = _find_while_polling(run, consumer, refused[0])
            run.should(found, f"metadata is refreshed after {error}", seen="no Metadata request", exchanges=refused)

    without_leader = ", which names no leader" if refreshes else ""
    play.__doc__ = f"The first two Fetch requests for orders-0 are answered with {error}{without_leader}."
    decorate = case(
        f"fetching.errors.{name}",
        title=f"Fetch is refused twice with {error}",
        level=Level.MUST,
        rule=f"{reason} The same offset is fetched again, and no record is lost; a client should do so by itself.",
        source=_ERRORS,
        needs=("consumer.assign",),
        cluster=ClusterPlan(topics={"orders": 1}),
        quick=name == "not-leader",
        decided_by=("Fetch",),
    )
    return decorate(play)


def _find_while_polling(run: CaseRun, consumer: ConsumerHandle, refused: Exchange) -> bool:
    """Whether metadata is refreshed after an exchange, while the application polls on for a second at most."""
    for _ in range(20):
        if run.wire.requests("Metadata", after=refused):
            return True
        with suppress(ClientError):
            consumer.poll(timeout_ms=50)
    return False


not_leader = _retried(
    "not-leader", "NOT_LEADER_OR_FOLLOWER", "The error is retriable: metadata is stale.", refreshes=True
)
fenced_leader_epoch = _retried(
    "fenced-leader-epoch",
    "FENCED_LEADER_EPOCH",
    "The error is retriable: the client's leader epoch is older than the broker's.",
    with_epoch=True,
)
unknown_leader_epoch = _retried(
    "unknown-leader-epoch",
    "UNKNOWN_LEADER_EPOCH",
    "The error is retriable: the broker does not know the client's leader epoch yet.",
    with_epoch=True,
)
unknown_topic = _retried(
    "unknown-topic",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "The error is retriable: the broker may not know the partition yet.",
    refreshes=True,
)
unknown_topic_id = _retried(
    "unknown-topic-id",
    "UNKNOWN_TOPIC_ID",
    "The error is retriable: the broker does not know the id of the topic.",
    refreshes=True,
    first_version=_FETCH_BY_TOPIC_ID,
)
offset_not_available = _retried(
    "offset-not-available",
    "OFFSET_NOT_AVAILABLE",
    "The error is retriable: the replica has not yet learned how far the log is committed.",
    first_version=_FETCH_FROM_FOLLOWERS,
)
storage = _retried(
    "storage",
    "KAFKA_STORAGE_ERROR",
    "The error is retriable: another replica may lead soon.",
    refreshes=True,
    first_version=_FETCH_STORAGE_ERRORS,
)


@case(
    "fetching.errors.topic-authorization",
    title="Fetch is refused with TOPIC_AUTHORIZATION_FAILED",
    level=Level.MUST,
    rule="The error is not retriable: the application gets it.",
    source=Source(
        "Kafka protocol guide", "Error Codes, Retriable", "kafka-clients KafkaConsumer.poll, AuthorizationException"
    ),
    needs=("consumer.assign",),
    cluster=ClusterPlan(topics={"orders": 1}),
    decided_by=("Fetch",),
)
def topic_authorization(run: CaseRun) -> None:
    """Every Fetch request for orders-0 is answered with TOPIC_AUTHORIZATION_FAILED."""
    run.produce("orders", "first")
    run.cluster.faults.add("Fetch", topic="orders", error="TOPIC_AUTHORIZATION_FAILED")
    consumer = run.consumer()
    consumer.assign(("orders", 0, "earliest"))

    run.expect_poll_error(consumer, "TOPIC_AUTHORIZATION_FAILED", timeout_s=10)


@case(
    "fetching.errors.corrupt-records",
    title="A batch whose checksum is wrong",
    level=Level.MUST,
    rule="A consumer that checks checksums gives no record of a batch with a wrong one to the application.",
    source=Source("Kafka documentation", "check.crcs", "kafka-clients ConsumerConfig.CHECK_CRCS_DOC"),
    needs=("consumer.assign",),
    settings_needed=("check_crcs",),
    cluster=ClusterPlan(topics={"orders": 1}),
    decided_by=("Fetch",),
)
def corrupt_records(run: CaseRun) -> None:
    """The batches of the first Fetch response with records have a wrong checksum; later ones are right."""
    run.produce("orders", "first", "second")
    run.cluster.faults.add("Fetch", topic="orders", times=1, corrupt_records=True)
    consumer = run.consumer(check_crcs=True)
    consumer.assign(("orders", 0, "earliest"))

    reading = read_until(run, consumer, lambda reading: reading.records or reading.errors)

    damaged = run.wire.requests("Fetch", topic="orders")
    run.expect(
        reading.errors or reading.values == ["first", "second"],
        "an error, or the records of a second Fetch request",
        seen=f"records {describe_seen(reading.values)} without an error",
        exchanges=damaged,
    )
    run.expect(
        reading.errors or len(damaged) > 1,
        "the records of the damaged response are not delivered",
        seen=f"records {describe_seen(reading.values)} of the only Fetch request",
        exchanges=damaged,
    )
