"""Simulated operator: creates, extends and deletes topics, changes retention, describes and deletes share groups."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec

from kwire.messages import delete_share_group_offsets as delete
from kwire.messages import describe_share_group_offsets as describe
from kwire.messages import read_share_group_state_summary as summary
from kwire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from kwire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kwire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from kwire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from mockbroker.sim.actor import Actor
from mockbroker.sim.random_choice import perform_action
from mockbroker.sim.simulated_cluster import SimulatedCluster
from mockbroker.sim.simulated_topics import COMPACTED_TOPIC, DELETED_TOPIC, GROUP_IDS
from mockbroker.sim.wire import OnResponse
from mockbroker.state.metadata.configs import ResourceKind
from mockbroker.state.metadata.feature_levels import SHARE_VERSION
from mockbroker.state.metadata.topics import CoordinatorKind
from mockbroker.state.share_coordinator.share_coordinator import ShareKey

_CLEANING = {"segment.ms": "20000", "min.cleanable.dirty.ratio": "0.1", "delete.retention.ms": "5000"}
_COMPACTED_CONFIG = {"cleanup.policy": "compact", **_CLEANING}
#: Bytes by second: the clients of a simulation send and receive some hundred bytes at once.
_QUOTAS = {"producer_byte_rate": (20.0, 100.0), "consumer_byte_rate": (20.0, 100.0)}
_MAX_PARTITIONS = 3
_DOWNGRADE, _UPGRADE = 2, 1


class Operator(Actor):
    """Acts over the wire, on connections of its own."""

    client_id = "operator"

    def __init__(self, cluster: SimulatedCluster, rng: Random) -> None:
        super().__init__(cluster, rng)
        self._is_off = False
        self._limited: set[str] = set()
        self._short_retention: set[str] = set()

    def prepare(self) -> None:
        """Create the compacted topic."""
        rows = [CreatableTopicConfig(name, value) for name, value in _COMPACTED_CONFIG.items()]
        self._send(CreateTopicsRequest([CreatableTopic(COMPACTED_TOPIC, 1, -1, configs=rows)], 1_000), 7, to=0)
        self._complete_topic_change()

    def act(self) -> str:
        """Perform one action of an operator."""
        actions: list[tuple[int, Callable[[], str]]] = [(2, self._add_partitions), (1, self._delete_topic)]
        actions += [(4, self._change_retention), (2, self._switch_off), (2, self._describe)]
        actions += [(2, self._describe_offsets), (2, self._read_summary)]
        actions += [(1, self._delete_offsets), (1, self._delete_group), (2, self._change_quota)]
        return self._switch_on() if self._is_off else perform_action(self._rng, actions)

    def restore(self) -> None:
        """Switch share groups on again, and remove quotas."""
        on_disk = self._cluster.disk is not None  # Where changes are refused that were requested before.
        if self._is_off or on_disk:
            self._switch_on()
        for key in sorted(_QUOTAS if on_disk else self._limited):
            self._set_quota(key, None)

    # Topics.

    def _complete_topic_change(self) -> None:
        self._cluster.advance(0)
        self._cluster.update_partitions()

    def _add_partitions(self) -> str:
        topic = self._rng.choice(self._cluster.topics())
        count = len(topic.partitions) + 1
        if count > _MAX_PARTITIONS:
            return f"{topic.name} has enough partitions"
        self._send(CreatePartitionsRequest([CreatePartitionsTopic(topic.name, count, None)], 1_000), 3)
        self._complete_topic_change()
        grown = self._cluster.find_topic((topic.topic_id, 0))
        self._count("partitions added", int(grown is not None and len(grown.partitions) == count))
        return f"{topic.name} is extended to {count} partitions"

    def _delete_topic(self) -> str:
        """Delete a topic, and create another one of its name."""
        name = DELETED_TOPIC
        self._cluster.records.start_deletion(name)
        self._send(DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=1_000), 6)
        self._complete_topic_change()
        self._short_retention.discard(name)
        self._send(CreateTopicsRequest([CreatableTopic(name, 1, -1)], 1_000), 7)
        self._complete_topic_change()
        self._count("topic deleted")
        return f"{name} is deleted and created again"

    def _change_retention(self) -> str:
        name = self._rng.choice([topic.name for topic in self._cluster.topics() if topic.name != COMPACTED_TOPIC])
        is_short = name not in self._short_retention
        self._short_retention ^= {name}
        settings = {"retention.ms": "40000", "segment.ms": "8000"} if is_short else {"retention.ms": "-1"}
        self._alter_configs(ResourceKind.TOPIC, name, settings)
        self._count("retention changed")
        return f"{name} has {'short' if is_short else 'unlimited'} retention"

    # The cluster.

    def _change_quota(self) -> str:
        """Limit all clients by bytes, or no more."""
        key = self._rng.choice(sorted(_QUOTAS))
        value = None if key in self._limited else self._rng.choice(_QUOTAS[key])
        self._limited ^= {key}
        self._set_quota(key, value)
        self._count("quota changed")
        return f"{key} is {'unlimited' if value is None else value}"

    def _set_quota(self, key: str, value: float | None) -> None:
        change = OpData(key, value or 0.0, remove=value is None)
        entity = [EntityData("client-id", None)]
        self._send(AlterClientQuotasRequest([AlterClientQuotasRequestEntryData(entity, [change])]), 1)
        self._cluster.advance(0)

    def _switch_off(self) -> str:
        self._is_off = True
        self._set_level(0, _DOWNGRADE)
        self._count("share groups switched off")
        return "share groups are switched off"

    def _switch_on(self) -> str:
        self._is_off = False
        self._set_level(self._cluster.core.state.release.features.levels[SHARE_VERSION][1], _UPGRADE)
        self._count("share groups switched on")
        return "share groups are switched on"

    def _set_level(self, level: int, kind: int) -> None:
        def changed(answer: UpdateFeaturesResponse) -> None:
            if self._cluster.is_refused_by_disk(answer.error_code):
                self._count("refused by the disk")
                self._is_off = not self._is_off
                return
            assert not answer.error_code, answer

        self._cluster.invariants.dead_letters.record_disturbance()
        row = FeatureUpdateKey(SHARE_VERSION, level, upgrade_type=kind)
        self._send(UpdateFeaturesRequest(1_000, [row]), 1, changed)
        self._cluster.advance(0)

    # Groups.

    def _describe(self) -> str:
        group_id = self._rng.choice(GROUP_IDS)

        def described(answer: ShareGroupDescribeResponse) -> None:
            self._count("group described", int(not answer.groups[0].error_code))

        self._send_to_coordinator(group_id, ShareGroupDescribeRequest((group_id,)), 1, described)
        return f"{group_id} is described"

    def _describe_offsets(self) -> str:
        if self._cluster.client_dialect.lacks_api(describe.DescribeShareGroupOffsetsRequest.API_KEY):
            return "no offsets can be described"
        group_id = self._rng.choice(GROUP_IDS)

        def described(answer: describe.DescribeShareGroupOffsetsResponse) -> None:
            topics = [topic for group in answer.groups if not group.error_code for topic in group.topics]
            self._count("offsets described", sum(not row.error_code for topic in topics for row in topic.partitions))

        # In the released message None stands for all topics; the drafts require their names.
        topics = None if self._cluster.client_dialect.is_released else self._topic_rows()
        groups = [describe.DescribeShareGroupOffsetsRequestGroup(group_id, topics)]
        self._send_to_coordinator(group_id, describe.DescribeShareGroupOffsetsRequest(groups), 1, described)
        return f"offsets of {group_id} are described"

    def _topic_rows(self) -> list[describe.DescribeShareGroupOffsetsRequestTopic]:
        partitions = {topic.name: tuple(range(len(topic.partitions))) for topic in self._cluster.topics()}
        return [describe.DescribeShareGroupOffsetsRequestTopic(*row) for row in partitions.items()]

    def _read_summary(self) -> str:
        group_id, partition_key = self._rng.choice(GROUP_IDS), self._rng.choice(self._cluster.partition_keys())
        key = ShareKey(group_id, *partition_key)

        def read(answer: summary.ReadShareGroupStateSummaryResponse) -> None:
            row = answer.results[0].partitions[0]
            if not row.error_code:
                self._count("state read")
                self._cluster.invariants.check_summary(key, row.start_offset, row.state_epoch)

        data = summary.ReadStateSummaryData(key.topic_id, [summary.PartitionData(key.partition, -1)])
        node_id = self._cluster.coordinator(CoordinatorKind.SHARE, str(key))
        self._send(summary.ReadShareGroupStateSummaryRequest(group_id, [data]), 1, read, to=node_id)
        return f"the state of {key} is read"

    def _delete_offsets(self) -> str:
        if self._cluster.client_dialect.lacks_api(delete.DeleteShareGroupOffsetsRequest.API_KEY):
            return "no offsets can be deleted"
        group_id, topic = self._rng.choice(GROUP_IDS), self._rng.choice(self._cluster.topics())
        self._empty_group(group_id)

        def deleted(answer: delete.DeleteShareGroupOffsetsResponse) -> None:
            self._count("offsets deleted", int(not answer.error_code))

        rows = [delete.DeleteShareGroupOffsetsRequestTopic(topic.name)]
        self._send_to_coordinator(group_id, delete.DeleteShareGroupOffsetsRequest(group_id, rows), 0, deleted)
        return f"{group_id} has no state for {topic.name}"

    def _delete_group(self) -> str:
        group_id = self._rng.choice(GROUP_IDS)
        self._empty_group(group_id)

        def deleted(answer: DeleteGroupsResponse) -> None:
            self._count("group deleted", int(not answer.results[0].error_code))

        self._send_to_coordinator(group_id, DeleteGroupsRequest((group_id,)), 2, deleted)
        return f"{group_id} is deleted"

    def _empty_group(self, group_id: str) -> None:
        """Have all members leave a group whose state will be deleted."""
        self._cluster.empty_group(group_id)
        self._cluster.invariants.record_deletion(group_id)

    def _send_to_coordinator(self, group_id: str, request: msgspec.Struct, version: int, done: OnResponse) -> None:
        self._send(request, version, done, to=self._cluster.coordinator(CoordinatorKind.GROUP, group_id))
