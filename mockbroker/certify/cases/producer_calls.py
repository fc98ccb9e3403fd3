"""What cases of producers have in common: sending, errors, and the batches of Produce requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kwire.records import Batch, read_batches
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.driver.failure import ClientError
from mockbroker.certify.driver.handles import ProducerHandle, RecordToSend
from mockbroker.certify.driver.messages import ErrorInfo
from mockbroker.certify.driver.settings import ProducerSettings
from mockbroker.certify.expectations import Unsupported
from mockbroker.journal import Exchange


class SentBatch(NamedTuple):
    """A batch of a Produce request. partition: its index."""

    exchange: Exchange[Any, Any]
    partition: int
    batch: Batch

    @property
    def values(self) -> list[bytes | None]:
        """The values of its records."""
        return [None if record.value is None else bytes(record.value) for record in self.batch.records()]

    @property
    def producer(self) -> tuple[int, int]:
        """The producer id and epoch."""
        return self.batch.producer_id, self.batch.producer_epoch

    @property
    def sequences(self) -> tuple[int, int]:
        """The base sequence, and the number of records."""
        return self.batch.base_sequence, self.batch.count


def sent_batches(exchanges: Iterable[Exchange[Any, Any]], partition: int | None = None) -> list[SentBatch]:
    """The batches of Produce requests in order, of one partition if it is given."""
    return [
        SentBatch(exchange, row.index, batch)
        for exchange in exchanges
        for topic in exchange.request.topic_data
        for row in topic.partition_data
        if partition in (None, row.index)
        for batch in read_batches(row.records or b"")
    ]


def send_error(
    producer: ProducerHandle, topic: str, *records: RecordToSend, timeout_ms: int = 8000
) -> ErrorInfo | None:
    """Send records. Returns: the error of the call, or of the first record that has one; None if all are delivered."""
    try:
        deliveries = producer.send(topic, *records, timeout_ms=timeout_ms)
    except ClientError as error:
        if error.name == "LOCAL_UNSUPPORTED":
            raise
        return error.info
    return next((delivery.error for delivery in deliveries if delivery.error is not None), None)


def first_error(run: CaseRun, **settings: object) -> ErrorInfo | None:
    """Open a producer and send a record. Returns: the first error, also one of the client's constructor.

    Calls that block until there are metadata are bounded, where the client has a setting for it.
    """
    bound = {"max_block_ms": 3000} if "max_block_ms" in run.hello.settings else {}
    given: ProducerSettings = {**bound, **settings}  # type: ignore[typeddict-item]
    try:
        return send_error(run.producer(**given), "orders", "first", timeout_ms=4000)
    except ClientError as error:
        if error.name == "LOCAL_UNSUPPORTED":
            raise
        return error.info


def error_name(error: ErrorInfo | None) -> str | None:
    """The name of an error, None without one."""
    return None if error is None else error.name


def stored_values(run: CaseRun) -> list[str]:
    """The values in the log of `orders`, in order."""
    return [(record.value or b"").decode() for record in run.cluster.read("orders")]


def not_idempotent(run: CaseRun, **settings: object) -> ProducerSettings:
    """Settings of a producer that is not idempotent, whatever its default is."""
    plain = {"idempotence": False} if "idempotence" in run.hello.settings else {}
    return {**plain, **settings}  # type: ignore[typeddict-item]


def require_version(exchanges: Sequence[Exchange[Any, Any]], first: int, what: str) -> None:
    """Check that a client sends a version in which brokers answer with an error. Raises: Unsupported."""
    if exchanges and exchanges[0].api_version < first:
        sent = f"{exchanges[0].api_name} {exchanges[0].api_version}"
        raise Unsupported(f"the client sends {sent}: brokers answer with {what} from version {first} on")
