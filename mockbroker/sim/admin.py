"""A plain producer and an administrator: records come, records go, configurations and offsets change."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

import msgspec

from kwire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from kwire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kwire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Record, write_batch
from mockbroker.config_keys import Scope
from mockbroker.sim.chance import do_one
from mockbroker.state.configs import ResourceKind
from mockbroker.state.share_coordinator import ShareKey
from mockbroker.state.topics import CoordinatorKind

if TYPE_CHECKING:
    from mockbroker.sim.world import World
    from mockbroker.state.topics import Topic

_LIMIT = "share.delivery.count.limit"
_CHOICES = {
    _LIMIT: ("2", "3", "4", "5", "8"),
    "share.record.lock.duration.ms": ("1000", "2500", "5000", "12000", "45000"),
    "share.partition.max.record.locks": ("100", "120"),
    "share.renew.acknowledge.enable": ("true", "true", "false"),
    "share.isolation.level": ("read_committed", "read_uncommitted"),
}


class Admin:
    """Acts on the cluster from outside, over the wire where there is a request for it."""

    def __init__(self, world: World, rng: Random, groups: tuple[str, ...]) -> None:
        self._world = world
        self._rng = rng
        self._groups = groups

    def prepare(self) -> None:
        """Groups begin at the start of the logs, as what they did not see cannot be lost."""
        for group_id in self._groups:
            self._alter_config(group_id, "share.auto.offset.reset", "earliest")
            if self._may_alter("share.partition.max.record.locks"):
                self._alter_config(group_id, "share.partition.max.record.locks", "100")
        self._world.advance(0)

    def act(self) -> str:
        """One deed of an administrator."""
        deeds: list[tuple[int, Callable[[], str]]] = [
            (10, self._change_config),
            (2, self._delete_records),
            (1, self._alter_offsets),
        ]
        return do_one(self._rng, deeds)

    def produce(self) -> str:
        """A batch of records to some partition; none once the log is long enough for a short simulation."""
        place = self._world.some_place(self._rng)
        topic = None if place is None else self._world.topic_of(place)
        if place is None or topic is None:
            return "nothing is produced"
        index = place[1]
        count = self._rng.choice((1, 2, 3, 5, 8, 8, 13, 40))
        key = self._world.some_key
        records = [Record(n, self._world.now_ms, key(self._rng), self._value(topic)) for n in range(count)]
        data = PartitionProduceData(index, write_batch(records))
        request = ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[TopicProduceData(topic.name, bytes(16), [data])])
        self._ask(self._world.leader(place), request, 9)
        return f"{count} records for {topic.name}-{index}"

    def _value(self, topic: Topic) -> bytes | None:
        """A value, or now and then a tombstone where it means something."""
        return None if topic.name == self._world.compacted and self._rng.random() < 0.2 else b"value"

    def _change_config(self) -> str:
        names = [name for name in _CHOICES if self._may_alter(name)]
        group_id, name = self._rng.choice(self._groups), self._rng.choice(names)
        return self._alter_config(group_id, name, self._rng.choice(_CHOICES[name]))

    def _may_alter(self, name: str) -> bool:
        """Whether groups have a configuration of this name in the edition."""
        there = self._world.core.state.rules.group_configs
        return there is None or name in there

    def _alter_config(self, group_id: str, name: str, value: str) -> str:
        def changed(response: IncrementalAlterConfigsResponse) -> None:
            assert not response.responses[0].error_code, response
            self._world.coverage.count("config changed")
            if name == _LIMIT:
                self._world.checks.limit_changed(group_id)

        said = self._world.config_name(Scope.GROUP, name)
        resource = AlterConfigsResource(ResourceKind.GROUP, group_id, [AlterableConfig(said, 0, value)])
        self._ask(self._anybody(), IncrementalAlterConfigsRequest([resource]), 1, changed)
        return f"{group_id}: {name}={value}"

    def _delete_records(self) -> str:
        topic = self._rng.choice(self._world.topics())
        index = self._rng.randrange(len(topic.partitions))
        place = (topic.topic_id, index)
        log = self._world.log(place)
        if log is None or log.end_offset - log.start_offset < 10:
            return "nothing is deleted"
        offset = log.start_offset + self._rng.randrange(10)
        rows = [DeleteRecordsTopic(topic.name, [DeleteRecordsPartition(index, offset)])]
        self._ask(self._world.leader(place), DeleteRecordsRequest(rows, 1_000), 2)
        self._world.coverage.count("log start moved")
        return f"{topic.name}-{index} begins at {offset}"

    def _alter_offsets(self) -> str:
        """Everybody leaves a group, and it begins elsewhere."""
        if self._world.speech.lacks(AlterShareGroupOffsetsRequest.API_KEY):
            return "no offset can be altered"
        group_id = self._rng.choice(self._groups)
        topic = self._rng.choice(self._world.topics())
        index = self._rng.randrange(len(topic.partitions))
        log = self._world.log((topic.topic_id, index))
        if log is None:
            return "no offset is altered"
        for member in self._world.members:
            if member.group_id == group_id and member.member_epoch is not None:
                member.leave()
        self._world.advance(0)
        node_id = self._world.coordinator(CoordinatorKind.GROUP, group_id)
        if not self._world.is_up(node_id):
            return "no offset is altered, nobody coordinates"
        offset = self._rng.randint(log.start_offset, log.end_offset)
        key = ShareKey(group_id, topic.topic_id, index)

        def altered(response: AlterShareGroupOffsetsResponse) -> None:
            rows = [row for topic in response.responses for row in topic.partitions]
            self._world.checks.begun(key)
            if response.error_code == 0 and rows and not any(row.error_code for row in rows):
                self._world.coverage.count("offsets altered")

        self._world.checks.began(key, offset)
        partition = AlterShareGroupOffsetsRequestPartition(index, offset)
        rows = [AlterShareGroupOffsetsRequestTopic(topic.name, [partition])]
        self._ask(node_id, AlterShareGroupOffsetsRequest(group_id, rows), 0, altered)
        return f"{group_id} is to begin {topic.name}-{index} at {offset}"

    def _anybody(self) -> int:
        return self._rng.choice(sorted(self._world.core.state.calls.nodes))

    def _ask(
        self,
        node_id: int,
        request: msgspec.Struct,
        version: int,
        done: Callable[[msgspec.Struct], None] | Callable[..., None] = lambda answer: None,
    ) -> None:
        """One request on a connection of its own."""
        wire = self._world.wire
        connection = wire.connect(node_id, "admin")
        wire.ask(connection, request, version, done)
