"""Typed handles of the clients that a driver has open: the methods of the driver protocol, and polls that wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from mockbroker.certify.driver import messages as m
from mockbroker.certify.expectations import ExpectationFailed
from mockbroker.certify.seen_values import describe_seen

R = TypeVar("R", bound=m.Value)
E = TypeVar("E", bound=m.Event)

#: The default time that a client is given for a call, milliseconds.
CALL_TIMEOUT_MS = 10_000
#: The time of one poll of `poll_until`, milliseconds.
POLL_MS = 500

#: A record to produce: its value, or value with key, headers, timestamp or partition.
RecordToSend = str | None | m.SendRecord


class Caller(Protocol):
    """Calls a method of a driver."""

    def __call__(self, method: str, params: m.Value, result_type: type[R], timeout_ms: int) -> R:
        """Raises: ClientError, DriverFailure."""


class Polled(NamedTuple):
    """What polls returned, in order."""

    records: list[m.ConsumedRecord]
    events: list[m.Event]

    @property
    def values(self) -> list[str | None]:
        """The values of the records."""
        return [record.value for record in self.records]

    @property
    def offsets(self) -> list[int]:
        """The offsets of the records."""
        return [record.offset for record in self.records]

    def events_of(self, kind: type[E]) -> list[E]:
        """The events of one type, as `Acknowledged`."""
        return [event for event in self.events if isinstance(event, kind)]


def partitions(*names: tuple[str, int]) -> tuple[m.TopicPartition, ...]:
    """Partitions as the protocol has them, from names and indices."""
    return tuple(m.TopicPartition(topic=topic, partition=partition) for topic, partition in names)


class ClientHandle:
    """A client that is open in a driver. name: which the case gave it, and its `client_id` on the wire."""

    def __init__(self, name: str, call: Caller) -> None:
        self.name = name
        self.is_open = True
        self._caller = call

    def close(self, *, timeout_ms: int = CALL_TIMEOUT_MS) -> Polled:
        """Close the client cleanly. Returns: the events that came meanwhile. Raises: ClientError."""
        self.is_open = False
        result = self._call("close", m.ClientParams(client=self.name, timeout_ms=timeout_ms), m.CloseResult)
        return Polled([], list(result.events))

    def _plain(self, method: str, timeout_ms: int) -> None:
        """A method with only the client's name, and without a result."""
        self._call(method, m.ClientParams(client=self.name, timeout_ms=timeout_ms), m.Nothing)

    def _call(self, method: str, params: m.ClientParams, result_type: type[R]) -> R:
        return self._caller(method, params, result_type, params.timeout_ms)


class ProducerHandle(ClientHandle):
    """A producer, transactional if it has a `transactional_id`."""

    def send(
        self,
        topic: str,
        *records: RecordToSend,
        partition: int | None = None,
        timeout_ms: int = CALL_TIMEOUT_MS,
    ) -> list[m.Delivery]:
        """Give records to the client at once, and wait for all. Returns: a result for each, which may be an error.

        records: values, or `SendRecord`. Raises: ClientError if the client refuses the call.
        """
        made = tuple(r if isinstance(r, m.SendRecord) else m.SendRecord(value=r) for r in records)
        params = m.SendParams(client=self.name, topic=topic, records=made, partition=partition, timeout_ms=timeout_ms)
        return list(self._call("send", params, m.SendResult).deliveries)

    def init_transactions(self, *, timeout_ms: int = CALL_TIMEOUT_MS) -> None:
        """Get a producer id, and end the transactions of earlier producers with this transactional id."""
        self._plain("init_transactions", timeout_ms)

    def begin(self, *, timeout_ms: int = CALL_TIMEOUT_MS) -> None:
        """Begin a transaction."""
        self._plain("begin", timeout_ms)

    def commit_transaction(self, *, timeout_ms: int = CALL_TIMEOUT_MS) -> None:
        """Commit the transaction."""
        self._plain("commit_transaction", timeout_ms)

    def abort_transaction(self, *, timeout_ms: int = CALL_TIMEOUT_MS) -> None:
        """Abort the transaction."""
        self._plain("abort_transaction", timeout_ms)

    def send_offsets(
        self, consumer: ConsumerHandle, *offsets: tuple[str, int, int], timeout_ms: int = CALL_TIMEOUT_MS
    ) -> None:
        """Add offsets, (topic, partition, offset), of a consumer in the same driver process to the transaction."""
        params = m.SendOffsetsParams(
            client=self.name, offsets=_offsets(offsets), consumer=consumer.name, timeout_ms=timeout_ms
        )
        self._call("send_offsets", params, m.Nothing)


class PollingHandle(ClientHandle):
    """What consumers and share consumers have in common."""

    def subscribe(self, *topics: str, pattern: str | None = None, timeout_ms: int = CALL_TIMEOUT_MS) -> None:
        """Subscribe to topics, or to those that match a pattern."""
        params = m.SubscribeParams(
            client=self.name, topics=topics if pattern is None else None, pattern=pattern, timeout_ms=timeout_ms
        )
        self._call("subscribe", params, m.Nothing)

    def unsubscribe(self, *, timeout_ms: int = CALL_TIMEOUT_MS) -> None:
        """End the subscription."""
        self._plain("unsubscribe", timeout_ms)

    def poll(
        self,
        *,
        timeout_ms: int = CALL_TIMEOUT_MS,
        max_records: int | None = None,
        wakeup_after_ms: int | None = None,
    ) -> Polled:
        """Poll once: it returns as soon as there are records or events. Raises: ClientError, that of the poll."""
        params = m.PollParams(
            client=self.name, timeout_ms=timeout_ms, max_records=max_records, wakeup_after_ms=wakeup_after_ms
        )
        result = self._call("poll", params, m.PollResult)
        return Polled(list(result.records), list(result.events))

    def poll_until(
        self,
        condition: Callable[[Polled], object] | None = None,
        *,
        records: int | None = None,
        timeout_s: float = 10.0,
        max_records: int | None = None,
    ) -> Polled:
        """Poll until this many records have come, or until a condition on all that has come is true. Returns: that.

        Raises: ExpectationFailed if it is not so in time; ClientError, that of a poll.
        """
        if (condition is None) == (records is None):
            raise TypeError("poll_until: give a condition, or a number of records")
        is_enough = condition if condition is not None else lambda seen: len(seen.records) >= (records or 0)
        polled = Polled([], [])
        deadline = time.monotonic() + timeout_s
        while not is_enough(polled):
            left_ms = int((deadline - time.monotonic()) * 1000)
            if left_ms <= 0:
                expected = (
                    "records or events that meet the case's condition" if records is None else f"{records} records"
                )
                raise ExpectationFailed(f"polls of {self.name} return {expected} within {timeout_s:g} s", _seen(polled))
            more = self.poll(timeout_ms=min(left_ms, POLL_MS), max_records=max_records)
            polled.records.extend(more.records)
            polled.events.extend(more.events)
        return polled


class ConsumerHandle(PollingHandle):
    """A consumer: assigned, of a classic group, or of a group of KIP-848."""

    def assign(
        self, *places: tuple[str, int] | tuple[str, int, int | str | None], timeout_ms: int = CALL_TIMEOUT_MS
    ) -> None:
        """Read these partitions: (topic, partition), or (topic, partition, offset), also "earliest" and "latest"."""
        assigned = tuple(
            m.AssignedPartition(topic=place[0], partition=place[1], offset=place[2] if len(place) == 3 else None)  # type: ignore[arg-type]
            for place in places
        )
        self._call("assign", m.AssignParams(client=self.name, partitions=assigned, timeout_ms=timeout_ms), m.Nothing)

    def commit(self, *offsets: tuple[str, int, int], timeout_ms: int = CALL_TIMEOUT_MS) -> None:
        """Commit offsets, (topic, partition, offset), or the positions, and wait."""
        params = m.CommitParams(client=self.name, offsets=_offsets(offsets) or None, timeout_ms=timeout_ms)
        self._call("commit", params, m.CommitResult)

    def commit_async(self, *, timeout_ms: int = CALL_TIMEOUT_MS) -> None:
        """Commit the positions without waiting; the result is an event `Committed`."""
        self._plain("commit_async", timeout_ms)

    def committed(self, topic: str, partition: int, *, timeout_ms: int = CALL_TIMEOUT_MS) -> int | None:
        """The committed offset."""
        return self._offset("committed", topic, partition, timeout_ms)

    def position(self, topic: str, partition: int, *, timeout_ms: int = CALL_TIMEOUT_MS) -> int | None:
        """The offset of the next record that a poll returns."""
        return self._offset("position", topic, partition, timeout_ms)

    def seek(self, topic: str, partition: int, offset: int, *, timeout_ms: int = CALL_TIMEOUT_MS) -> None:
        """Set the position."""
        params = m.SeekParams(client=self.name, topic=topic, partition=partition, offset=offset, timeout_ms=timeout_ms)
        self._call("seek", params, m.Nothing)

    def pause(self, *names: tuple[str, int], timeout_ms: int = CALL_TIMEOUT_MS) -> None:
        """Return no records of these partitions until they are resumed."""
        self._call("pause", self._partitions(names, timeout_ms), m.Nothing)

    def resume(self, *names: tuple[str, int], timeout_ms: int = CALL_TIMEOUT_MS) -> None:
        """Return records of these partitions again."""
        self._call("resume", self._partitions(names, timeout_ms), m.Nothing)

    def assignment(self, *, timeout_ms: int = CALL_TIMEOUT_MS) -> set[tuple[str, int]]:
        """The assigned partitions, as (topic, partition)."""
        params = m.ClientParams(client=self.name, timeout_ms=timeout_ms)
        return {
            (each.topic, each.partition) for each in self._call("assignment", params, m.PartitionsResult).partitions
        }

    def _offset(self, method: str, topic: str, partition: int, timeout_ms: int) -> int | None:
        result = self._call(method, self._partitions([(topic, partition)], timeout_ms), m.OffsetsResult)
        found = {(each.topic, each.partition): each.offset for each in result.offsets}
        return found.get((topic, partition))

    def _partitions(self, names: Iterable[tuple[str, int]], timeout_ms: int) -> m.PartitionsParams:
        return m.PartitionsParams(client=self.name, partitions=partitions(*names), timeout_ms=timeout_ms)


class ShareConsumerHandle(PollingHandle):
    """A member of a share group."""

    def acknowledge(
        self,
        records: m.ConsumedRecord | Sequence[m.ConsumedRecord],
        type: m.AcknowledgeType = "accept",
        *,
        timeout_ms: int = CALL_TIMEOUT_MS,
    ) -> None:
        """Acknowledge records that were polled; the next poll, commit or close sends it."""
        given = [records] if isinstance(records, m.ConsumedRecord) else records
        made = tuple(
            m.RecordAcknowledgement(topic=each.topic, partition=each.partition, offset=each.offset, type=type)
            for each in given
        )
        self._call("acknowledge", m.AcknowledgeParams(client=self.name, records=made, timeout_ms=timeout_ms), m.Nothing)

    def commit(self, *, timeout_ms: int = CALL_TIMEOUT_MS) -> dict[tuple[str, int], m.ErrorInfo | None]:
        """Send acknowledgements and wait (commitSync). Returns: by (topic, partition) the error, or None."""
        result = self._call("commit", m.CommitParams(client=self.name, timeout_ms=timeout_ms), m.CommitResult)
        return {(each.topic, each.partition): each.error for each in result.partitions}

    def commit_async(self, *, timeout_ms: int = CALL_TIMEOUT_MS) -> None:
        """Send acknowledgements without waiting; results are events `Acknowledged`."""
        self._plain("commit_async", timeout_ms)

    def lock_timeout(self, *, timeout_ms: int = CALL_TIMEOUT_MS) -> int | None:
        """The acquisition lock timeout that the client shows, milliseconds."""
        params = m.ClientParams(client=self.name, timeout_ms=timeout_ms)
        return self._call("lock_timeout", params, m.LockTimeoutResult).timeout_ms


class AdminHandle(ClientHandle):
    """An admin client."""

    def create_topic(
        self, name: str, *, partitions: int = 1, replication_factor: int = 1, timeout_ms: int = CALL_TIMEOUT_MS
    ) -> None:
        """Create a topic."""
        topic = m.NewTopic(name=name, partitions=partitions, replication_factor=replication_factor)
        params = m.CreateTopicsParams(client=self.name, topics=(topic,), timeout_ms=timeout_ms)
        self._call("create_topics", params, m.Nothing)

    def delete_topics(self, *names: str, timeout_ms: int = CALL_TIMEOUT_MS) -> None:
        """Delete topics."""
        params = m.DeleteTopicsParams(client=self.name, topics=names, timeout_ms=timeout_ms)
        self._call("delete_topics", params, m.Nothing)

    def create_partitions(self, name: str, count: int, *, timeout_ms: int = CALL_TIMEOUT_MS) -> None:
        """Add partitions to a topic. count: the new total."""
        params = m.CreatePartitionsParams(
            client=self.name, topics=(m.PartitionCount(name=name, count=count),), timeout_ms=timeout_ms
        )
        self._call("create_partitions", params, m.Nothing)

    def list_topics(self, *, timeout_ms: int = CALL_TIMEOUT_MS) -> list[str]:
        """The names of all topics."""
        params = m.ClientParams(client=self.name, timeout_ms=timeout_ms)
        return list(self._call("list_topics", params, m.TopicsResult).topics)

    def describe_cluster(self, *, timeout_ms: int = CALL_TIMEOUT_MS) -> m.ClusterResult:
        """The cluster's id, controller and nodes."""
        params = m.ClientParams(client=self.name, timeout_ms=timeout_ms)
        return self._call("describe_cluster", params, m.ClusterResult)

    def list_offset(
        self, topic: str, partition: int, spec: str | int = "latest", *, timeout_ms: int = CALL_TIMEOUT_MS
    ) -> int | None:
        """An offset by "earliest", "latest" or a timestamp, milliseconds since 1970."""
        wanted = m.OffsetSpec(topic=topic, partition=partition, spec=spec)  # type: ignore[arg-type]
        params = m.ListOffsetsParams(client=self.name, partitions=(wanted,), timeout_ms=timeout_ms)
        offsets = self._call("list_offsets", params, m.OffsetsResult).offsets
        return offsets[0].offset if offsets else None


def _offsets(offsets: Iterable[tuple[str, int, int]]) -> tuple[m.OffsetOf, ...]:
    return tuple(m.OffsetOf(topic=topic, partition=index, offset=offset) for topic, index, offset in offsets)


def _seen(polled: Polled) -> str:
    places = [f"{each.topic}-{each.partition}@{each.offset}" for each in polled.records[:10]]
    more = f", ... {len(polled.records) - 10} more" if len(polled.records) > 10 else ""
    events = f"; events: {describe_seen(polled.events[:5])}" if polled.events else ""
    return f"{len(polled.records)} records{': ' if places else ''}{', '.join(places)}{more}{events}"
