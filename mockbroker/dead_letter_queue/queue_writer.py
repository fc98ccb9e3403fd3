"""The dead-letter queue manager of one node: writes dead letters to the topics of queues, with retries.

The writes are requests to the leaders of the queues' partitions. While a request to a node is in flight, further
dead letters for it wait, and are then sent in one request. Source: Kafka's ShareGroupDLQStateManager; share-semantics
9.2 and 9.3.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec

from kwire import uuids
from kwire.error_codes import ErrorCode
from kwire.records import Record, write_batch
from mockbroker.cluster_services.inter_broker import NotReady
from mockbroker.dead_letter_queue.dead_letter_records import DeadLetterSource, dead_letter_records
from mockbroker.dead_letter_queue.source_records import SourceRecords, read_source_records
from mockbroker.kafka_error import KafkaError
from mockbroker.persisters.default import TRIES_MAX, backoff_ms
from mockbroker.state.metadata.topics import TopicPartitionKey

if TYPE_CHECKING:
    from random import Random

    from mockbroker.cluster_services.inter_broker import InterBrokerChannel
    from mockbroker.dead_letter_queue.queue_topic import QueueTopics
    from mockbroker.state.metadata.cluster_image import ClusterImage
    from mockbroker.state.share.dead_letter import DeadLetter
    from mockbroker.state.share.share_partition import SharePartition
    from mockbroker.state.storage.log_store import NodeLogs

_RETRIABLE_CREATION = frozenset(
    {ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.NETWORK_EXCEPTION}
)
_RETRIABLE_WRITE = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NETWORK_EXCEPTION})
#: How long a write waits for the replicas in sync.
_WRITE_TIMEOUT_MS = 30_000
#: Called with whether the queue has the whole dead letter.
DeadLetterCallback = Callable[[bool, int], None]


class QueueNode(Protocol):
    """What the manager requires of the broker that leads a partition of a queue."""

    node_id: int

    @property
    def logs(self) -> NodeLogs:
        """The logs that the node leads."""
        ...


class _Job(msgspec.Struct, eq=False):
    """One dead letter on its way.

    next_offset: the first one that is not written yet. originals: read for the round that begins there. target: the
    partition of the queue. written_to: the last offset of the request in flight. create_failures, write_failures: in a
    row, so far.
    """

    source: DeadLetterSource
    topic_id: bytes
    dead_letter: DeadLetter
    done: DeadLetterCallback
    next_offset: int
    originals: SourceRecords
    queue_name: str = ""
    target: TopicPartitionKey | None = None
    written_to: int = -1
    create_failures: int = 0
    write_failures: int = 0


_Batches = dict[TopicPartitionKey, list[Record]]
_Results = dict[TopicPartitionKey, KafkaError | None]


class _WriteRequest:
    """One request to the leader of queues; the answer is sent when the replicas in sync have all batches."""

    def __init__(self, batches: _Batches, topics: QueueTopics, metadata: ClusterImage) -> None:
        self._batches = batches
        self._topics = topics
        self._metadata = metadata
        self._node: QueueNode | None = None
        self._received_ms = 0
        self._results: _Results = {}
        self._ends: dict[TopicPartitionKey, int] = {}

    def handle(self, node: QueueNode, now_ms: int) -> _Results:
        """Append the batches once, then wait. Raises: NotReady; NETWORK_EXCEPTION after a restart of the node."""
        if self._node is None:
            self._node, self._received_ms = node, now_ms
            for target, records in self._batches.items():
                self._results[target] = self._append(node, target, records, now_ms)
        if node is not self._node:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"node {node.node_id} was restarted")
        for target in list(self._ends):
            self._results[target] = self._replication_error(node, target, now_ms)
            del self._ends[target]
        return self._results

    def _append(
        self, node: QueueNode, target: TopicPartitionKey, records: list[Record], now_ms: int
    ) -> KafkaError | None:
        topic = self._metadata.topic_by_id(target[0])
        partition = None if topic is None else topic.partition(target[1])
        if topic is None or partition is None:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        batch = [msgspec.structs.replace(record, offset=at) for at, record in enumerate(records)]
        try:
            log = node.logs.find_log(*target)
            self._topics.check_write(topic, partition)
            log.append(write_batch(batch), now_ms=now_ms)
        except KafkaError as error:
            return error
        self._ends[target] = log.end_offset
        return None

    def _replication_error(self, node: QueueNode, target: TopicPartitionKey, now_ms: int) -> KafkaError | None:
        try:
            log = node.logs.find_log(*target)
        except KafkaError as error:
            return error
        if log.high_watermark >= self._ends[target]:
            return None
        if now_ms < self._received_ms + _WRITE_TIMEOUT_MS:
            raise NotReady
        return KafkaError(ErrorCode.REQUEST_TIMED_OUT)


class DeadLetterQueues:
    """One node's writer of dead letters. Every `done(is_written, now_ms)` is called once."""

    def __init__(
        self,
        channel: InterBrokerChannel[QueueNode],
        metadata: ClusterImage,
        rng: Random,
        topics: QueueTopics,
        logs: NodeLogs,
    ) -> None:
        """Args: logs: of this node, which leads the source partitions."""
        self._channel = channel
        self._metadata = metadata
        self._rng = rng
        self._topics = topics
        self._logs = logs
        self._is_closed = False
        self._is_working = False
        self._queue: deque[_Job] = deque()
        self._waiting: dict[int, list[_Job]] = {}
        self._in_flight: set[int] = set()

    def close(self) -> None:
        """The node has ended: nothing is retried. The next leader finds the records in the state ARCHIVING."""
        self._is_closed = True

    def send_dead_letter(
        self, partition: SharePartition, dead_letter: DeadLetter, *, done: DeadLetterCallback, now_ms: int
    ) -> None:
        """Write the records of a dead letter to the queue of the group."""
        topic = self._metadata.topic_by_id(partition.topic_id)
        name = uuids.to_text(partition.topic_id) if topic is None else topic.name
        source = DeadLetterSource(partition.group_id, name, partition.partition_index)
        nothing = SourceRecords({}, dead_letter.last)
        job = _Job(source, partition.topic_id, dead_letter, done, dead_letter.first, nothing)
        if self._topics.refusal(source.group_id) is not None:
            done(False, now_ms)  # An unusable queue costs no read of the source.
            return
        self._read_originals(job)
        self._enqueue(job, now_ms)

    def _enqueue(self, job: _Job, now_ms: int) -> None:
        """Begin or retry; the configuration may have changed since the last attempt."""
        if self._is_closed:
            return
        if self._topics.refusal(job.source.group_id) is not None:
            job.done(False, now_ms)
            return
        self._queue.append(job)
        if not self._is_working:
            self._process_queue(now_ms)

    def _read_originals(self, job: _Job) -> None:
        """Read the original records of a round, whose bytes together are at most those of a batch of the queue."""
        group_id, last = job.source.group_id, job.dead_letter.last
        job.originals = SourceRecords({}, last)
        if not self._topics.copies_records(group_id):
            return
        limit = self._topics.max_batch_bytes(self._topics.name(group_id))
        try:
            log = self._logs.find_log(job.topic_id, job.source.partition_index)
        except KafkaError:
            return  # Another node leads the source now: the dead letters have headers only.
        job.originals = read_source_records(log, job.next_offset, last, limit)

    # Sending. One call of `_process_queue` does the work of one or more rounds of Kafka's send thread.

    def _process_queue(self, now_ms: int) -> None:
        if self._is_closed:
            return
        self._is_working = True
        self._send_batches(now_ms)
        while self._queue:
            job = self._queue.popleft()
            if self._find_target(job):
                self._send_batches(now_ms)
            else:
                self._create_queue(job, now_ms)
        self._is_working = False

    def _find_target(self, job: _Job) -> bool:
        """Put a job into the list of its leader; False without a topic, or where a partition has no leader."""
        queue = self._topics.find(job.source.group_id)
        partition = None if queue is None else self._topics.find_partition(queue, job.source.partition_index)
        if queue is None or partition is None:
            return False
        job.queue_name, job.target = queue.name, (queue.topic_id, partition.index)
        self._waiting.setdefault(partition.leader, []).append(job)
        return True

    def _create_queue(self, job: _Job, now_ms: int) -> None:
        """Create the topic by any broker. One that exists, but lacks a leader, is requested too, as in Kafka."""
        name = self._topics.name(job.source.group_id)

        def handle(_node: QueueNode, _at_ms: int) -> None:
            self._topics.create(name)

        def on_answer(answer: KafkaError | None, at_ms: int) -> None:
            job.create_failures += 1
            is_retriable = answer is None or answer.code in _RETRIABLE_CREATION
            if isinstance(answer, KafkaError) and not is_retriable:
                self._finish(job, at_ms, is_written=False)
            elif answer is None and self._find_target(job):
                job.create_failures = 0
            else:
                self._retry_or_finish(job, job.create_failures, at_ms)
            self._process_queue(at_ms)

        live_nodes = [node_id for node_id in self._metadata.node_ids if node_id not in self._metadata.fenced]
        if not live_nodes:
            self._finish(job, now_ms, is_written=False)
            return
        self._channel.call(to=self._rng.choice(live_nodes), handle=handle, done=on_answer, now_ms=now_ms)

    def _send_batches(self, now_ms: int) -> None:
        """Send what waits for nodes without a request in flight."""
        for node_id in [node_id for node_id in self._waiting if node_id not in self._in_flight]:
            jobs, batches = self._waiting.pop(node_id), _Batches()
            sizes: dict[TopicPartitionKey, int] = {}
            sent = [job for job in jobs if self._add_records(job, batches, sizes, now_ms)]
            later = [job for job in jobs if job not in sent]
            if later:
                self._waiting[node_id] = later
            self._in_flight.add(node_id)
            request = _WriteRequest(batches, self._topics, self._metadata)
            on_answer = partial(self._on_results, node_id, sent)
            self._channel.call(to=node_id, handle=request.handle, done=on_answer, now_ms=now_ms)

    def _add_records(self, job: _Job, batches: _Batches, sizes: dict[TopicPartitionKey, int], now_ms: int) -> bool:
        """Add the job's next records to the batch of their partition; False if they do not fit into it."""
        assert job.target is not None
        limit = self._topics.max_batch_bytes(job.queue_name)
        last = max(job.next_offset, min(job.dead_letter.last, job.originals.resolved_to))
        offsets, originals = range(job.next_offset, last + 1), job.originals.by_offset
        records = dead_letter_records(
            job.source, job.dead_letter, originals, offsets, max_batch_bytes=limit, now_ms=now_ms
        )
        size, used = len(write_batch(records)), sizes.get(job.target, 0)
        if used and used + size > limit:
            return False
        sizes[job.target] = used + size
        batches.setdefault(job.target, []).extend(records)
        job.written_to = job.next_offset + len(records) - 1
        return True

    def _on_results(self, node_id: int, jobs: list[_Job], results: _Results | KafkaError, now_ms: int) -> None:
        if self._is_closed:
            return
        self._in_flight.discard(node_id)
        self._is_working = True
        for job in jobs:
            assert job.target is not None
            result = results if isinstance(results, KafkaError) else results[job.target]
            self._on_result(job, node_id, result, now_ms)
        self._process_queue(now_ms)

    def _on_result(self, job: _Job, node_id: int, error: KafkaError | None, now_ms: int) -> None:
        job.write_failures += 1
        if error is not None:
            if error.code in _RETRIABLE_WRITE:
                self._retry_or_finish(job, job.write_failures, now_ms)
            else:
                self._finish(job, now_ms, is_written=False)
            return
        job.write_failures = 0
        if job.written_to >= job.dead_letter.last:
            self._finish(job, now_ms, is_written=True)
            return
        job.next_offset = job.written_to + 1
        self._read_originals(job)
        self._waiting.setdefault(node_id, []).append(job)

    def _retry_or_finish(self, job: _Job, failures: int, now_ms: int) -> None:
        if failures >= TRIES_MAX:
            self._finish(job, now_ms, is_written=False)
            return
        self._channel.schedule(backoff_ms(failures, self._rng), partial(self._enqueue_at, job), now_ms=now_ms)

    def _enqueue_at(self, job: _Job, now_ms: int) -> None:
        self._enqueue(job, now_ms)

    def _finish(self, job: _Job, now_ms: int, *, is_written: bool) -> None:
        if not self._is_closed:
            job.done(is_written, now_ms)


class NoOpDeadLetterQueues(DeadLetterQueues):
    """Kafka's NoOpShareGroupDLQManager: writes nothing, and reports every dead letter as written."""

    def send_dead_letter(
        self, partition: SharePartition, dead_letter: DeadLetter, *, done: DeadLetterCallback, now_ms: int
    ) -> None:
        """Report the dead letter as written."""
        done(True, now_ms)
