"""An operator: topics come, grow and go, logs are cleaned, share groups are switched off, looked at and struck out."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

import msgspec

from kwire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kwire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
)
from kwire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.messages.read_share_group_state_summary import (
    PartitionData,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryData,
)
from kwire.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from kwire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from mockbroker.sim.chance import do_one
from mockbroker.state.configs import ResourceKind
from mockbroker.state.share_coordinator import ShareKey
from mockbroker.state.topics import CoordinatorKind

if TYPE_CHECKING:
    from mockbroker.sim.world import World

_COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "20000",
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": "5000",
}
_PARTITIONS_MAX = 3
_DOWN, _UP = 2, 1


class Operator:
    """Acts over the wire, on connections of its own. deleted: the topic that is deleted now and then, and made anew."""

    def __init__(self, world: World, rng: Random, groups: tuple[str, ...], *, deleted: str, compacted: str) -> None:
        self._world = world
        self._rng = rng
        self._groups = groups
        self._deleted = deleted
        self._compacted = compacted
        self._is_off = False
        self._keeps_little: set[str] = set()

    def prepare(self) -> None:
        """A topic that is compacted, from the start on."""
        rows = [CreatableTopicConfig(name, value) for name, value in _COMPACTED.items()]
        self._ask(0, CreateTopicsRequest([CreatableTopic(self._compacted, 1, -1, configs=rows)], 1_000), 7)
        self._world.advance(0)
        self._world.follow()

    def act(self) -> str:
        """One deed of an operator."""
        deeds: list[tuple[int, Callable[[], str]]] = [
            (2, self._grow),
            (1, self._delete_topic),
            (4, self._change_retention),
            (2, self._switch_off),
            (2, self._describe),
            (2, self._describe_offsets),
            (2, self._read_summary),
            (1, self._delete_offsets),
            (1, self._delete_group),
        ]
        if self._is_off:
            return self._switch_on()
        return do_one(self._rng, deeds)

    def repair(self) -> None:
        """All as it was."""
        if self._is_off:
            self._switch_on()

    # Topics.

    def _grow(self) -> str:
        topic = self._rng.choice(self._world.topics())
        count = len(topic.partitions) + 1
        if count > _PARTITIONS_MAX:
            return f"{topic.name} is large enough"
        self._ask(self._anybody(), CreatePartitionsRequest([CreatePartitionsTopic(topic.name, count, None)], 1_000), 3)
        self._world.advance(0)
        grown = self._world.topic_of((topic.topic_id, 0))
        if grown is not None and len(grown.partitions) == count:
            self._world.coverage.count("topic grown")
            self._world.follow()
        return f"{topic.name} grows to {count} partitions"

    def _delete_topic(self) -> str:
        """A topic goes, and another one of its name comes."""
        name = self._deleted
        self._ask(self._anybody(), DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=1_000), 6)
        self._world.advance(0)
        self._world.follow()
        self._keeps_little.discard(name)
        self._ask(self._anybody(), CreateTopicsRequest([CreatableTopic(name, 1, -1)], 1_000), 7)
        self._world.advance(0)
        self._world.follow()
        self._world.coverage.count("topic deleted")
        return f"{name} is deleted and made anew"

    def _change_retention(self) -> str:
        name = self._rng.choice([topic.name for topic in self._world.topics() if topic.name != self._compacted])
        little = name not in self._keeps_little
        self._keeps_little ^= {name}
        wanted = {"retention.ms": "40000", "segment.ms": "8000"} if little else {"retention.ms": "-1"}
        rows = [AlterableConfig(key, 0, value) for key, value in wanted.items()]
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(ResourceKind.TOPIC, name, rows)])
        self._ask(self._anybody(), request, 1)
        self._world.coverage.count("retention changed")
        return f"{name} keeps {'little' if little else 'everything'}"

    # The cluster.

    def _switch_off(self) -> str:
        self._is_off = True
        self._set_level(0, _DOWN)
        self._world.coverage.count("share groups switched off")
        return "share groups are switched off"

    def _switch_on(self) -> str:
        self._is_off = False
        self._set_level(1, _UP)
        self._world.coverage.count("share groups switched on")
        return "share groups are switched on"

    def _set_level(self, level: int, kind: int) -> None:
        def changed(answer: msgspec.Struct) -> None:
            assert not answer.error_code, answer  # type: ignore[attr-defined]

        row = FeatureUpdateKey("share.version", level, upgrade_type=kind)
        self._ask(self._anybody(), UpdateFeaturesRequest(1_000, [row]), 1, changed)
        self._world.advance(0)

    # Groups.

    def _describe(self) -> str:
        group_id = self._rng.choice(self._groups)

        def described(answer: ShareGroupDescribeResponse) -> None:
            self._world.coverage.count("group described", int(not answer.groups[0].error_code))

        self._ask_coordinator(group_id, ShareGroupDescribeRequest((group_id,)), 1, described)
        return f"{group_id} is described"

    def _describe_offsets(self) -> str:
        if self._world.speech.lacks(DescribeShareGroupOffsetsRequest.API_KEY):
            return "no offsets can be described"
        group_id = self._rng.choice(self._groups)

        def described(answer: DescribeShareGroupOffsetsResponse) -> None:
            for group in answer.groups:
                for topic in group.topics:
                    for row in topic.partitions:
                        if not row.error_code and not group.error_code:
                            self._world.coverage.count("offsets described")

        # Released, no topics are all of them; drafts want them named.
        topics = None if self._world.speech.is_released else self._named()
        request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group_id, topics)])
        self._ask_coordinator(group_id, request, 1, described)
        return f"offsets of {group_id} are described"

    def _named(self) -> list[DescribeShareGroupOffsetsRequestTopic]:
        return [
            DescribeShareGroupOffsetsRequestTopic(topic.name, tuple(range(len(topic.partitions))))
            for topic in self._world.topics()
        ]

    def _read_summary(self) -> str:
        group_id, place = self._rng.choice(self._groups), self._rng.choice(self._world.places())
        key = ShareKey(group_id, *place)

        def read(answer: ReadShareGroupStateSummaryResponse) -> None:
            row = answer.results[0].partitions[0]
            if not row.error_code:
                self._world.coverage.count("state read")
                self._world.checks.summarised(key, row.start_offset, row.state_epoch)

        data = ReadStateSummaryData(place[0], [PartitionData(place[1], -1)])
        node_id = self._world.coordinator(CoordinatorKind.SHARE, str(key))
        self._ask(node_id, ReadShareGroupStateSummaryRequest(group_id, [data]), 1, read)
        return f"the state of {key} is read"

    def _delete_offsets(self) -> str:
        if self._world.speech.lacks(DeleteShareGroupOffsetsRequest.API_KEY):
            return "no offsets can be deleted"
        group_id, topic = self._rng.choice(self._groups), self._rng.choice(self._world.topics())
        self._empty(group_id)

        def deleted(answer: msgspec.Struct) -> None:
            done = not answer.error_code  # type: ignore[attr-defined]
            self._world.coverage.count("offsets deleted", int(done))

        rows = [DeleteShareGroupOffsetsRequestTopic(topic.name)]
        self._ask_coordinator(group_id, DeleteShareGroupOffsetsRequest(group_id, rows), 0, deleted)
        return f"{group_id} forgets {topic.name}"

    def _delete_group(self) -> str:
        group_id = self._rng.choice(self._groups)
        self._empty(group_id)

        def deleted(answer: msgspec.Struct) -> None:
            done = not answer.results[0].error_code  # type: ignore[attr-defined]
            self._world.coverage.count("group deleted", int(done))

        self._ask_coordinator(group_id, DeleteGroupsRequest((group_id,)), 2, deleted)
        return f"{group_id} is deleted"

    def _empty(self, group_id: str) -> None:
        """Everybody leaves a group."""
        for member in self._world.members:
            if member.group_id == group_id and member.member_epoch is not None:
                member.leave()
        self._world.advance(0)
        self._world.checks.deletion_asked(group_id)

    # Asking.

    def _anybody(self) -> int:
        return self._rng.choice(sorted(self._world.core.state.calls.nodes))

    def _ask_coordinator(self, group_id: str, request: msgspec.Struct, version: int, done: Callable[..., None]) -> None:
        self._ask(self._world.coordinator(CoordinatorKind.GROUP, group_id), request, version, done)

    def _ask(
        self, node_id: int, request: msgspec.Struct, version: int, done: Callable[..., None] = lambda answer: None
    ) -> None:
        if self._world.is_up(node_id):
            wire = self._world.wire
            wire.ask(wire.connect(node_id, "operator"), request, version, done)
