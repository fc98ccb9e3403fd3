"""Simulated administrator and plain producer: produces and deletes records, changes configurations and offsets."""

from __future__ import annotations

from kwire.messages import alter_share_group_offsets as alter
from kwire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kwire.messages.incremental_alter_configs import IncrementalAlterConfigsResponse
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Record, write_batch
from mockbroker.config.keys import Scope
from mockbroker.sim.actor import Actor
from mockbroker.sim.random_choice import perform_action
from mockbroker.sim.simulated_topics import (
    COMPACTED_TOPIC,
    COPYING_GROUP,
    GROUP_IDS,
    QUEUE_NAMES,
    QUEUE_PARTITIONS,
    SMALL_BATCH_BYTES,
)
from mockbroker.state.metadata.configs import ResourceKind
from mockbroker.state.metadata.topics import CoordinatorKind, Topic
from mockbroker.state.share_coordinator.share_coordinator import ShareKey

_LIMIT = "share.delivery.count.limit"
_IS_QUEUE, _QUEUE_NAME = "errors.deadletterqueue.group.enable", "errors.deadletterqueue.topic.name"
_COPIES = "errors.deadletterqueue.copy.record.enable"
_CHOICES = {
    _LIMIT: ("2", "3", "4", "5", "8"),
    "share.record.lock.duration.ms": ("1000", "2500", "5000", "12000", "45000"),
    "share.partition.max.record.locks": ("100", "120"),
    "share.renew.acknowledge.enable": ("true", "true", "false"),
    "share.isolation.level": ("read_committed", "read_uncommitted"),
}


class Admin(Actor):
    """Acts on the cluster from outside, over the wire where a request exists."""

    client_id = "admin"

    def prepare(self) -> None:
        """Have groups start at the beginning of the logs: a record that a group never reads cannot be lost."""
        for group_id in GROUP_IDS:
            self._alter_config(group_id, "share.auto.offset.reset", "earliest")
            if self._may_alter("share.partition.max.record.locks"):
                self._alter_config(group_id, "share.partition.max.record.locks", "100")
            if self._cluster.has_queues:
                self._create_queue(group_id)
        self._cluster.advance(0)

    def act(self) -> str:
        """Perform one action of an administrator."""
        actions = [(10, self._change_config), (2, self._delete_records), (1, self._alter_offsets)]
        if self._cluster.has_queues:
            actions.append((2, self._change_queue))
        return perform_action(self._rng, actions)

    # Dead-letter queues.

    def _create_queue(self, group_id: str) -> None:
        name, is_copying = QUEUE_NAMES[group_id], group_id == COPYING_GROUP
        configs = {_IS_QUEUE: "true", **({"max.message.bytes": SMALL_BATCH_BYTES} if is_copying else {})}
        rows = [CreatableTopicConfig(key, value) for key, value in configs.items()]
        topic = CreatableTopic(name, QUEUE_PARTITIONS[group_id], -1, configs=rows)
        self._send(CreateTopicsRequest([topic], 1_000), 7, to=0)
        if not self._starts_without_queue():
            self._alter_config(group_id, _QUEUE_NAME, name)
        self._alter_config(group_id, _COPIES, str(is_copying).lower())

    def _starts_without_queue(self) -> bool:
        """On a disk that fails administrators act too seldom to take many queues away."""
        return self._cluster.disk is not None and self._rng.random() < 0.2

    def _change_queue(self) -> str:
        """Give a group its queue or none, or have the queue's topic refuse dead letters or take them."""
        group_id = self._rng.choice(GROUP_IDS)
        name, is_on = QUEUE_NAMES[group_id], self._rng.random() < 0.6
        self._cluster.invariants.dead_letters.record_disturbance()
        self._count("queue changed")
        if self._rng.random() < 0.5:
            return self._alter_config(group_id, _QUEUE_NAME, name if is_on else "")
        self._alter_configs(ResourceKind.TOPIC, name, {_IS_QUEUE: str(is_on).lower()})
        return f"{name} is {'enabled' if is_on else 'disabled'}"

    def produce(self) -> str:
        """Produce a batch of records to some partition; none once its log is long enough."""
        cluster = self._cluster
        partition_key = cluster.choose_partition(self._rng)
        topic = None if partition_key is None else cluster.find_topic(partition_key)
        if partition_key is None or topic is None:
            return "nothing is produced"
        index = partition_key[1]
        count = self._rng.choice((1, 2, 3, 5, 8, 8, 13, 40))
        rows = ((cluster.choose_key(self._rng), self._choose_value(topic)) for _ in range(count))
        batch = write_batch([Record(n, cluster.now_ms, key, value) for n, (key, value) in enumerate(rows)])
        data = TopicProduceData(topic.name, bytes(16), [PartitionProduceData(index, batch)])
        request = ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[data])
        self._send(request, 9, to=cluster.leader(partition_key))
        return f"{count} records for {topic.name}-{index}"

    def _choose_value(self, topic: Topic) -> bytes | None:
        """A value, or sometimes a tombstone for a compacted topic."""
        return None if topic.name == COMPACTED_TOPIC and self._rng.random() < 0.2 else b"value"

    def _change_config(self) -> str:
        names = [name for name in _CHOICES if self._may_alter(name)]
        group_id = self._rng.choice(GROUP_IDS)
        name = self._rng.choice(names)
        return self._alter_config(group_id, name, self._rng.choice(_CHOICES[name]))

    def _may_alter(self, name: str) -> bool:
        """Whether groups have this configuration in the edition."""
        names = self._cluster.core.state.rules.groups.config_names
        return names is None or name in names

    def _alter_config(self, group_id: str, name: str, value: str) -> str:
        def changed(response: IncrementalAlterConfigsResponse) -> None:
            code = response.responses[0].error_code
            if self._cluster.is_refused_by_disk(code):
                self._count("refused by the disk")
                return
            assert not code, response
            self._count("config changed")
            if name == _LIMIT:
                self._cluster.invariants.update_limit(group_id)

        settings = {self._cluster.config_name(Scope.GROUP, name): value}
        self._alter_configs(ResourceKind.GROUP, group_id, settings, changed)
        return f"{group_id}: {name}={value}"

    def _delete_records(self) -> str:
        topic = self._rng.choice(self._cluster.topics())
        index = self._rng.randrange(len(topic.partitions))
        partition_key = (topic.topic_id, index)
        log = self._cluster.find_log(partition_key)
        if log is None or log.end_offset - log.start_offset < 10:
            return "nothing is deleted"
        offset = log.start_offset + self._rng.randrange(10)
        rows = [DeleteRecordsTopic(topic.name, [DeleteRecordsPartition(index, offset)])]
        self._send(DeleteRecordsRequest(rows, 1_000), 2, to=self._cluster.leader(partition_key))
        self._count("log start moved")
        return f"{topic.name}-{index} starts at {offset}"

    def _alter_offsets(self) -> str:
        """Have all members leave a group, and set its start offset."""
        if self._cluster.client_dialect.lacks_api(alter.AlterShareGroupOffsetsRequest.API_KEY):
            return "no offset can be altered"
        group_id = self._rng.choice(GROUP_IDS)
        topic = self._rng.choice(self._cluster.topics())
        index = self._rng.randrange(len(topic.partitions))
        log = self._cluster.find_log((topic.topic_id, index))
        if log is None:
            return "no offset is altered"
        self._cluster.empty_group(group_id)
        node_id = self._cluster.coordinator(CoordinatorKind.GROUP, group_id)
        if not self._cluster.is_up(node_id):
            return "no offset is altered, the group has no coordinator"
        offset = self._rng.randint(log.start_offset, log.end_offset)
        key = ShareKey(group_id, topic.topic_id, index)

        def altered(response: alter.AlterShareGroupOffsetsResponse) -> None:
            rows = [row for topic in response.responses for row in topic.partitions]
            self._cluster.invariants.end_alteration(key)
            if response.error_code == 0 and rows and not any(row.error_code for row in rows):
                self._count("offsets altered")

        self._cluster.invariants.start_alteration(key, offset)
        partition = alter.AlterShareGroupOffsetsRequestPartition(index, offset)
        rows = [alter.AlterShareGroupOffsetsRequestTopic(topic.name, [partition])]
        self._send(alter.AlterShareGroupOffsetsRequest(group_id, rows), 0, altered, to=node_id)
        return f"{group_id} starts {topic.name}-{index} at {offset}"
