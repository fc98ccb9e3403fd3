"""`NodeReplication`: one broker's part in replication: it leads partitions, and follows others.

Source: Kafka's ReplicaManager. What the controller decides reaches all brokers that run at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kwire.error_codes import ErrorCode
from mockbroker.cluster_services.cluster_services import ClusterServices
from mockbroker.cluster_services.inter_broker import DelayedAnswer
from mockbroker.kafka_error import KafkaError
from mockbroker.replication.fetch_messages import FetchedPartition, FollowerFetch, LogEnds, WantedPartition
from mockbroker.replication.follower_fetcher import FollowerFetcher, ReplicaNode
from mockbroker.replication.isr_requests import AlterIsr, IsrRequests
from mockbroker.replication.led_partition import LedPartition
from mockbroker.replication.node_logs import NodeReplicaLogs
from mockbroker.replication.settings import ReplicationSettings
from mockbroker.replication.waiting_fetches import WaitingFetches, is_complete
from mockbroker.state.metadata.topics import Partition, Topic, TopicPartitionKey, java_hash
from mockbroker.state.replication.leader_replicas import IsrChange, LagRules, LeaderReplicas
from mockbroker.state.storage.log_store import min_in_sync

#: After these the ISR is as it was before the request; after others the leader waits for the controller's next change.
_REFUSED = (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED)
_INT32_SIGN = 0x7FFFFFFF


class _Registration(NamedTuple):
    """A partition as the controller has it."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class NodeReplication:
    """The replicas of one broker, from its start to its end; its logs outlive it.

    logs: of the node. alter_isr: applies a change of the ISR at the controller. clock: milliseconds.
    """

    def __init__(
        self,
        node_id: int,
        cluster: ClusterServices[ReplicaNode],
        logs: NodeReplicaLogs,
        alter_isr: AlterIsr,
        clock: Callable[[], int],
    ) -> None:
        self.node_id = node_id
        self._cluster = cluster
        self._channel = cluster.inter_broker
        self._logs = logs
        self._clock = clock
        self._settings = ReplicationSettings.from_config(cluster.config)
        self._rules = LagRules(self._settings.lag_max_ms, self._is_eligible)
        self._known: dict[TopicPartitionKey, _Registration] = {}
        self._led: dict[TopicPartitionKey, LedPartition] = {}
        self._fetchers: dict[tuple[int, int], FollowerFetcher] = {}
        self._waiting = WaitingFetches(self._channel, node_id, self._read_again)
        self._isr_requests = IsrRequests(node_id, self._channel, alter_isr)
        self._is_closed = False
        self._checks_isr = False
        logs.on_log_changed = self._on_log_changed

    def close(self) -> None:
        """The broker has ended: its followers notice it, and nothing that is on its way has an effect."""
        self._is_closed = True
        self._logs.on_log_changed = None
        self._waiting.close(now_ms=self._clock())
        self._led.clear()
        for fetcher in self._fetchers.values():
            for key in self._known:
                fetcher.remove(key)
        self._known.clear()

    # What the controller decides.

    def apply_all(self) -> None:
        """Lead and follow as the controller has it."""
        for topic in self._cluster.metadata.topics():
            self.apply_partitions(topic, topic.partitions)
        for key in [key for key in self._known if self._cluster.metadata.find_partition(*key) is None]:
            self._drop(key)

    def apply_partitions(self, topic: Topic, partitions: Iterable[Partition]) -> None:
        """Lead and follow these partitions of a topic; a paused broker does it when it runs again.

        Raises: KAFKA_STORAGE_ERROR for files that cannot be created; the next call tries it again.
        """
        if self._is_closed or self.node_id in self._channel.paused:
            return
        for partition in partitions:
            key = (topic.topic_id, partition.index)
            wanted = _Registration(partition.leader, partition.leader_epoch, partition.replicas, partition.isr)
            known = self._known.get(key)
            if known == wanted:
                continue
            if self.node_id not in partition.replicas:
                if known is not None:
                    self._drop(key)
                    self._logs.remove_log(key)
                continue
            if partition.leader == self.node_id:
                self._lead(topic, partition)
            elif known is None or known.leader_epoch != partition.leader_epoch:
                self._follow(topic, partition)
            self._known[key] = wanted

    def drop_topic(self, topic: Topic) -> None:
        """The topic is deleted."""
        for partition in topic.partitions:
            self._drop((topic.topic_id, partition.index))

    def _drop(self, key: TopicPartitionKey) -> None:
        self._known.pop(key, None)
        self._stop_fetching(key)
        if self._led.pop(key, None) is not None:
            self._waiting.mark_changed(key, now_ms=self._clock())

    def _lead(self, topic: Topic, partition: Partition) -> None:
        key, now_ms = (topic.topic_id, partition.index), self._clock()
        self._stop_fetching(key)
        log = self._logs.open_log(topic, partition.index)
        led = self._led.get(key)
        if led is None:

            def least_in_sync(count: int) -> int:
                return min_in_sync(self._cluster.configs.topic(topic.name, self.node_id), count)

            led = self._led[key] = LedPartition(log, LeaderReplicas(self.node_id), self._rules, least_in_sync)
        replicas = led.replicas
        replicas.set_registration(partition.replicas, partition.isr)
        if partition.leader_epoch > replicas.leader_epoch:
            log.start_leader_epoch(partition.leader_epoch)
            replicas.start_epoch(partition.leader_epoch, end_offset=log.end_offset, now_ms=now_ms)
            self._waiting.mark_changed(key, now_ms=now_ms)
        led.update_high_watermark(now_ms=now_ms)
        self._schedule_isr_check(now_ms)

    def _follow(self, topic: Topic, partition: Partition) -> None:
        key, now_ms = (topic.topic_id, partition.index), self._clock()
        log = self._logs.open_log(topic, partition.index)
        if self._led.pop(key, None) is not None:
            self._waiting.mark_changed(key, now_ms=now_ms)
        place = (partition.leader, self._choose_fetcher(topic.name, partition.index))
        self._stop_fetching(key, unless=place)
        if partition.leader < 0:
            return
        fetcher = self._fetchers.get(place)
        if fetcher is None:
            fetcher = FollowerFetcher(self.node_id, partition.leader, self._channel, self._settings)
            self._fetchers[place] = fetcher
        fetcher.add(key, partition.leader_epoch, log, now_ms=now_ms)

    def _choose_fetcher(self, topic_name: str, partition_index: int) -> int:
        """Source: Kafka's AbstractFetcherManager.getFetcherId."""
        return ((31 * java_hash(topic_name) + partition_index) & _INT32_SIGN) % self._settings.fetcher_count

    def _stop_fetching(self, key: TopicPartitionKey, unless: tuple[int, int] | None = None) -> None:
        for place, fetcher in list(self._fetchers.items()):
            if place != unless:
                fetcher.remove(key)
                if fetcher.is_idle:
                    del self._fetchers[place]

    # The leader's side.

    def find_led(self, key: TopicPartitionKey) -> LedPartition | None:
        """A partition that the node leads."""
        return self._led.get(key)

    def serve_fetch(self, request: FollowerFetch, now_ms: int) -> Sequence[FetchedPartition] | DelayedAnswer:
        """Answer a follower at once, or when there are records for it."""
        rows = self._read(request, now_ms=now_ms)
        if request.limits.wait_max_ms <= 0 or is_complete(rows, request.limits.bytes_min):
            return rows
        return self._waiting.add(request, now_ms=now_ms)

    def find_log_ends(self, wanted: WantedPartition, node_id: int) -> LogEnds:
        """Where the log starts and ends. Raises: NOT_LEADER_OR_FOLLOWER, and as `LedPartition.check_request`."""
        led = self._require_led(wanted.key)
        led.check_request(node_id, wanted.leader_epoch)
        return LogEnds(led.log.start_offset, led.log.end_offset)

    def record_fetch(
        self, key: TopicPartitionKey, follower_id: int, offset: int, log_start_offset: int, *, now_ms: int
    ) -> None:
        """A follower has read from an offset: the high watermark and the ISR can grow."""
        led = self._led.get(key)
        if led is None or follower_id not in led.replicas.followers:
            return
        replicas = led.replicas
        progress = replicas.followers[follower_id]
        before = progress.end_offset
        progress.record_fetch(
            offset, log_start_offset=log_start_offset, leader_end_offset=led.log.end_offset, now_ms=now_ms
        )
        change = replicas.plan_expansion(follower_id, led.log.high_watermark, self._is_eligible)
        if change is not None:
            self._send_change(key, led, change, now_ms)
        if progress.end_offset != before:
            led.update_high_watermark(now_ms=now_ms)

    def _read_again(self, request: FollowerFetch) -> Sequence[FetchedPartition]:
        return self._read(request, now_ms=None)

    def _read(self, request: FollowerFetch, *, now_ms: int | None) -> Sequence[FetchedPartition]:
        """now_ms: when the request came, None to read once more for the same request."""
        rows: list[FetchedPartition] = []
        left, min_one = request.limits.bytes_max, True
        for wanted in request.partitions:
            bytes_max = min(left, request.limits.partition_bytes_max)
            try:
                led = self._require_led(wanted.key)
                led.check_request(request.node_id, wanted.leader_epoch)
                row = led.read(wanted, bytes_max, min_one=min_one)
            except KafkaError as error:
                row = FetchedPartition(wanted, error.code)
            rows.append(row)
            min_one = min_one and not row.batches
            left = max(0, left - row.size)
            if now_ms is not None and not row.is_urgent:
                self.record_fetch(wanted.key, request.node_id, wanted.offset, wanted.log_start_offset, now_ms=now_ms)
        return rows

    def _require_led(self, key: TopicPartitionKey) -> LedPartition:
        led = self._led.get(key)
        if led is None:
            is_known = self._cluster.metadata.find_partition(*key) is not None
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return led

    def _on_log_changed(self, key: TopicPartitionKey) -> None:
        led = self._led.get(key)
        if led is not None:
            now_ms = self._clock()
            led.update_high_watermark(now_ms=now_ms)
            self._waiting.mark_changed(key, now_ms=now_ms)

    # The ISR.

    def _is_eligible(self, node_id: int) -> bool:
        metadata = self._cluster.metadata
        return node_id not in metadata.fenced and node_id not in metadata.in_controlled_shutdown

    def _schedule_isr_check(self, now_ms: int) -> None:
        """Check each half of `replica.lag.time.max.ms` whether followers lag, while partitions have any."""
        if self._checks_isr or not any(led.replicas.followers for led in self._led.values()):
            return
        self._checks_isr = True
        delay_ms = max(1, self._settings.lag_max_ms // 2)
        self._channel.schedule(delay_ms, self._check_isr, now_ms=now_ms, owner=self.node_id)

    def _check_isr(self, now_ms: int) -> None:
        self._checks_isr = False
        for key, led in self._led.items():
            change = led.replicas.plan_shrinking(led.log.end_offset, self._settings.lag_max_ms, now_ms=now_ms)
            if change is not None:
                self._send_change(key, led, change, now_ms)
        if not self._is_closed:
            self._schedule_isr_check(now_ms)

    def _send_change(self, key: TopicPartitionKey, led: LedPartition, change: IsrChange, now_ms: int) -> None:
        def is_wanted() -> bool:
            return self._led.get(key) is led and led.replicas.pending is change

        def answered(code: ErrorCode, _at_ms: int) -> None:
            if code in _REFUSED:
                led.replicas.abandon(change)

        self._isr_requests.send(key, change, answered, is_wanted, now_ms)
