"""The group coordinators' topic, `__consumer_offsets`: groups and offsets as records, and loading them back.

Source: Kafka's GroupCoordinatorShard and CoordinatorLoaderImpl; the records are in `group_records`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kwire.error_codes import ErrorCode
from kwire.records import Record, write_batch
from mockbroker.coordinators.group_records import KeyAndValue, offset_record, record_of
from mockbroker.coordinators.group_rooms import CommittedRooms, GroupRooms, told
from mockbroker.coordinators.loading import Loading
from mockbroker.kafka_error import KafkaError
from mockbroker.state.group_facts import SHARE_KINDS, Fact
from mockbroker.state.groups import Groups
from mockbroker.state.log import Origin
from mockbroker.state.metadata import Change
from mockbroker.state.offsets import OffsetFact, Offsets
from mockbroker.state.share_group import ShareGroup
from mockbroker.state.topics import INTERNAL_TOPICS, CoordinatorKind, Topic

if TYPE_CHECKING:
    from mockbroker.context import ClusterState
    from mockbroker.state.group_kinds import Group
    from mockbroker.state.logs import Logs
    from mockbroker.state.mixed_group import Downgrade

_TOPIC_NAME = INTERNAL_TOPICS[CoordinatorKind.GROUP].name
#: What Kafka writes for a topic that it does not find any more.
_UNKNOWN_NAME = "<UNKNOWN>"
#: The one deadline that is no group's.
_HOUSEKEEPING = ("housekeeping", None)


class Written(NamedTuple):
    """How far a partition of the topic has been written."""

    topic_id: bytes
    shard: int
    end_offset: int


class GroupLog:
    """One node's way to the partitions of the topic that it leads; groups and offsets of these are in its rooms."""

    def __init__(self, cluster: ClusterState, logs: Logs) -> None:
        self._cluster = cluster
        self._logs = logs
        self._loaded: set[int] = set()
        self.loading = Loading(cluster.calls, logs.node_id)
        self._gathered: list[KeyAndValue] | None = None
        self._seen_ms = 0
        self.groups = Groups(cluster.metadata, cluster.wake, self._record)
        self.groups.downgrade = self._downgrade
        self.groups.share_rules = cluster.rules
        self.offsets = Offsets(self._record_offsets)
        self._committed = CommittedRooms(cluster)
        topic = cluster.metadata.topic(_TOPIC_NAME)
        if topic is not None:
            self._begin(topic)

    # Leading and loading.

    def topic_changed(self, change: Change, topic: Topic) -> None:
        """Begin where a partition is new, and give up what this node leads no more; `take_over` loads the rest."""
        if topic.name != _TOPIC_NAME:
            if change is Change.DELETED and self._loaded:
                # Kafka's coordinators hear of it a moment later; there is no time here but that of the last write.
                self._cluster.calls.later(0, partial(self._strike_topic, topic), now_ms=self._seen_ms)
            return
        if change in (Change.CREATED, Change.GREW):
            self._begin(topic)
        led = set() if change is Change.DELETED else self._led(topic)
        for partition in topic.partitions:
            if partition.index not in led:
                self.loading.give_up(partition.index)
        for shard in self._loaded - led:
            self._unload(shard)

    def take_over(self, *, now_ms: int) -> None:
        """After an election: begin to load the partitions that this node leads now."""
        topic = self._cluster.metadata.topic(_TOPIC_NAME)
        if topic is None:
            return
        self._begin(topic)
        for shard in sorted(self._led(topic) - self._loaded):
            if shard not in self.loading:
                self.loading.begin(shard, partial(self._load, topic, shard), now_ms=now_ms)

    def must_be_loaded(self, group_id: str) -> None:
        """Pass only when the partition of a group is in memory.

        Raises: COORDINATOR_LOAD_IN_PROGRESS.
        """
        self.loading.must_be_over(self._shard_of(group_id))

    def close(self) -> None:
        """The broker has ended: nothing is loaded any more."""
        self.loading.close()

    def _led(self, topic: Topic) -> set[int]:
        return {partition.index for partition in topic.partitions if partition.leader == self._logs.node_id}

    def _begin(self, topic: Topic) -> None:
        """Take partitions for loaded that nothing was written to yet."""
        led = self._led(topic)
        self._loaded |= {shard for shard in led if not self._logs.get(topic.topic_id, shard).end_offset}

    def _shard_of(self, group_id: str) -> int:
        return self._cluster.metadata.coordinator_partition(CoordinatorKind.GROUP, group_id)

    def _of_shard(self, group_ids: Iterable[str], shard: int) -> list[str]:
        return [group_id for group_id in group_ids if self._shard_of(group_id) == shard]

    def _unload(self, shard: int) -> None:
        self._loaded.discard(shard)
        group_ids = self._of_shard((group.group_id for group in self.groups.all()), shard)
        self.groups.unload(group_ids)
        self.offsets.unload(self._of_shard(self.offsets.group_ids(), shard), shard)
        for group_id in group_ids:
            # Whoever waits in the group has to be told to look elsewhere.
            self._cluster.wake(("group", group_id))

    def _load(self, topic: Topic, shard: int, now_ms: int) -> None:
        """Make groups and offsets again from the records; the sessions of members begin anew."""
        self._loaded.add(shard)
        log = self._logs.get(topic.topic_id, shard)
        rooms = GroupRooms(self.groups, self.offsets)
        for batch in log.below(log.end_offset):
            rooms.replay(self._cluster, shard, batch, now_ms=now_ms)
        group_ids = self._of_shard((group.group_id for group in self.groups.all()), shard)
        configs, of_broker = self._cluster.configs, dict(self._cluster.config)
        self.groups.resume(group_ids, settings=lambda name: {**of_broker, **configs.group(name)}, now_ms=now_ms)
        if self._cluster.rules.completes_deletions:
            self._go_on_deleting(group_ids, now_ms)
        self._keep_house(now_ms)

    # Reading.

    def told(self, group_id: str, *, now_ms: int) -> GroupRooms:
        """What may be told of a group: with its partition's records uncommitted, how it was before them."""
        live = GroupRooms(self.groups, self.offsets)
        topic = self._cluster.metadata.topic(_TOPIC_NAME)
        shard = self._shard_of(group_id) if topic is not None else -1
        if topic is None or shard not in self._loaded:
            return live
        return self._committed.of(shard, self._logs.get(topic.topic_id, shard), live, now_ms=now_ms)

    def told_group(self, group_id: str, *, now_ms: int) -> Group | None:
        """The group of this name as it may be told of, or None."""
        rooms = self.told(group_id, now_ms=now_ms)
        live = self.groups.find(group_id)
        return live if rooms.groups is self.groups else told(rooms.groups.find(group_id), live)

    def told_groups(self, *, now_ms: int) -> list[Group]:
        """All groups as they may be told of."""
        topic = self._cluster.metadata.topic(_TOPIC_NAME)
        held = {
            shard: self._committed.of(
                shard, self._logs.get(topic.topic_id, shard), GroupRooms(self.groups, self.offsets), now_ms=now_ms
            )
            for shard in (self._loaded if topic is not None else ())
            if topic is not None and self._is_held(topic, shard)
        }
        if not held:
            return self.groups.all()
        free = [group for group in self.groups.all() if self._shard_of(group.group_id) not in held]
        before = (group for rooms in held.values() for group in rooms.groups.all())
        seen = (told(group, self.groups.find(group.group_id)) for group in before)
        return free + [group for group in seen if group is not None]

    def _is_held(self, topic: Topic, shard: int) -> bool:
        log = self._logs.get(topic.topic_id, shard)
        return log.high_watermark < log.end_offset

    def _go_on_deleting(self, group_ids: Iterable[str], now_ms: int) -> None:
        from mockbroker.coordinators.share_deletions import go_on_deleting

        node = self._cluster.calls.nodes[self._logs.node_id]
        for group in map(self.groups.find, group_ids):
            if isinstance(group, ShareGroup):
                go_on_deleting(self.groups, group, node, self._cluster.metadata, now_ms=now_ms)

    # Writing.

    def uncommitted(self, group_id: str) -> Written | None:
        """Where the partition of a group ends, if not all replicas in sync have it up to there; else None."""
        topic = self._cluster.metadata.topic(_TOPIC_NAME)
        shard = self._shard_of(group_id) if topic is not None else -1
        if topic is None or shard not in self._loaded:
            return None
        log = self._logs.get(topic.topic_id, shard)
        return None if log.high_watermark == log.end_offset else Written(topic.topic_id, shard, log.end_offset)

    def is_committed(self, place: Written) -> bool:
        """Say whether all replicas in sync have what was written.

        Raises: NOT_COORDINATOR when this node leads the partition no more.
        """
        if place.shard not in self._loaded:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return self._logs.get(place.topic_id, place.shard).high_watermark >= place.end_offset

    def remove(self, group_id: str, *, now_ms: int) -> None:
        """Forget a group with its offsets; both are struck out at once."""
        rows = self._gathered = []
        self.offsets.delete_group(group_id, now_ms=now_ms)
        self.groups.remove(group_id, now_ms=now_ms)
        self._gathered = None
        self._append(group_id, rows, now_ms)

    def _strike_topic(self, topic: Topic, now_ms: int) -> None:
        """Strike out the offsets of a topic that has been deleted."""
        for group_id, places in self.offsets.of_topic(topic.topic_id).items():
            rows = [offset_record(group_id, topic.name, place, None) for place in places]
            with suppress(KafkaError):  # Another node coordinates the group now.
                self._append(group_id, rows, now_ms)
            for place in places:
                self.offsets.delete(group_id, place)

    def _downgrade(self, wish: Downgrade) -> bool:
        from mockbroker.coordinators.migration import downgrade

        return downgrade(wish, self.groups, self._cluster.metadata, self._cluster.config)

    # Housekeeping.

    def _keep_house(self, now_ms: int) -> None:
        """Begin to look for offsets that are kept no longer, unless that has begun."""
        if not self.groups.timers.is_set(_HOUSEKEEPING):
            interval_ms = self._cluster.config.integer("offsets.retention.check.interval.ms")
            self.groups.timers.set(_HOUSEKEEPING, now_ms + interval_ms, self._clean_up)

    def _clean_up(self, now_ms: int) -> None:
        """Forget what is kept no longer, and groups that have nothing left and nobody in them."""
        from mockbroker.coordinators.retention import expired

        retention_ms = self._cluster.config.integer("offsets.retention.minutes") * 60_000
        for group in self.groups.all():
            gone, is_all = expired(group, self.offsets, self._known_name, retention_ms=retention_ms, now_ms=now_ms)
            rows = self._gathered = []
            self.offsets.delete_all(group.group_id, gone, now_ms=now_ms)
            if is_all and group.is_deletable():
                self.groups.remove(group.group_id, now_ms=now_ms)
            self._gathered = None
            with suppress(KafkaError):
                self._append(group.group_id, rows, now_ms)
        self._keep_house(now_ms)

    def _known_name(self, topic_id: bytes) -> str | None:
        topic = self._cluster.metadata.topic_by_id(topic_id)
        return None if topic is None else topic.name

    def _record(self, group_id: str, facts: Sequence[Fact], now_ms: int) -> None:
        rows, own = [], self._cluster.records
        if own is not None:
            rows = own.of_group(facts, self._count_of)
            facts = [fact for fact in facts if fact.kind not in SHARE_KINDS]
        self._append(group_id, rows + [record_of(fact, self._name_of) for fact in facts], now_ms)

    def _count_of(self, topic_id: bytes) -> int:
        topic = self._cluster.metadata.topic_by_id(topic_id)
        return 0 if topic is None else len(topic.partitions)

    def _record_offsets(self, group_id: str, facts: Sequence[OffsetFact], now_ms: int) -> None:
        """Write offsets. Those of a topic that is no more stay in the log, where nobody finds them."""
        topics = ((fact, self._cluster.metadata.topic_by_id(fact.partition[0])) for fact in facts)
        rows = [
            offset_record(group_id, topic.name, fact.partition, fact.committed)
            for fact, topic in topics
            if topic is not None
        ]
        self._append(group_id, rows, now_ms)

    def _name_of(self, topic_id: bytes) -> str:
        topic = self._cluster.metadata.topic_by_id(topic_id)
        return _UNKNOWN_NAME if topic is None else topic.name

    def _append(self, group_id: str, rows: Sequence[KeyAndValue], now_ms: int) -> None:
        """Append what one operation has changed, as one batch."""
        if self._gathered is not None:
            self._gathered += rows
            return
        if not rows:
            return
        records = [Record(offset=at, timestamp=now_ms, key=key, value=value) for at, (key, value) in enumerate(rows)]
        topic = self._cluster.metadata.internal_topic(CoordinatorKind.GROUP)
        log = self._logs.get(topic.topic_id, self._shard_of(group_id))
        self._seen_ms = max(self._seen_ms, now_ms)
        self._keep_house(now_ms)
        log.append(write_batch(records), now_ms=now_ms, origin=Origin.COORDINATOR)
