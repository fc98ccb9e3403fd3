"""What the persister tries again comes late, and undoes what was done meanwhile."""

from __future__ import annotations

from typing import Any

from kwire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kwire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kwire.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
    PartitionData,
)
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kwire.uuids import to_text
from tests.nodes.coordinator_story import coordinator_of
from tests.nodes.replica_kit import configure
from tests.nodes.story import answered, fetch_request
from tests.nodes.teller import GROUP, MEMBER, Teller

_STATES = "__share_group_state"
#: Longer than a write of the share coordinator waits for its replicas, and shorter than until it is tried again.
_GIVEN_UP_S = 5.4


class Scene:
    """A cluster of which only the coordinator runs, which alone is enough for everything but stored state."""

    def __init__(self, teller: Teller, topic: str) -> None:
        self.teller = teller
        self.topic = topic
        teller.create(topic, [(0, 1, 2)])
        self.topic_id = teller.topic_id(topic)
        self.node = teller.coordinator(0)
        self._others = [(self.node + 1) % 3, (self.node + 2) % 3]
        coordinator_of(teller, 0, 2, f"{GROUP}:{to_text(self.topic_id)}:0")
        configure(teller, "__consumer_offsets", {"min.insync.replicas": "1"})
        configure(teller, _STATES, {"min.insync.replicas": "1"})
        teller.until(self._forget_group, lambda code: code in (0, 69))
        for other in self._others:
            teller.venue.stop(other)
        teller.until(lambda: teller.brokers(self.node), lambda brokers: brokers == [self.node])
        teller.until(lambda: teller.partition(self.node, topic), lambda row: row["isr"] == [self.node])
        self.tick()

    def _forget_group(self) -> int:
        answer = self.teller.ask(self.node, DeleteGroupsRequest((GROUP,)), 2)
        return int(answer.results[0].error_code)

    def hold(self) -> None:
        """From now on nothing that is stored is committed."""
        configure(self.teller, _STATES, {"min.insync.replicas": "2"}, node=self.node)
        self.teller.let_pass(0.5)

    def let_go(self) -> None:
        """Everything that was stored is committed."""
        configure(self.teller, _STATES, {"min.insync.replicas": "1"}, node=self.node)
        self.teller.let_pass(0.3)
        self.tick()

    def tick(self) -> None:
        """Have something appended to every partition of the share coordinator's topic."""
        for number in range(16):
            row = PartitionData(partition=0, state_epoch=0, start_offset=0)
            request = InitializeShareGroupStateRequest(f"tick-{number}", [InitializeStateData(self.topic_id, [row])])
            self.teller.until(
                lambda request=request: self.teller.ask(self.node, request, 0),  # type: ignore[misc]
                lambda answer: answer.results[0].partitions[0].error_code not in (14, 15, 16),
            )

    def heartbeat(self, epoch: int, *, topic: str | None = None) -> Any:
        """A heartbeat of the one member: its answer."""
        names = None if topic is None else (topic,)
        return self.teller.ask(
            self.node, ShareGroupHeartbeatRequest(GROUP, MEMBER, epoch, subscribed_topic_names=names), 1
        )

    def join(self, tries: int) -> list[int]:
        """Join, and go on until something is assigned, a few times: how many topics, and the epoch."""
        answer = self.heartbeat(0, topic=self.topic)
        for _ in range(tries):
            if answer.assignment is not None and answer.assignment.topic_partitions:
                return [len(answer.assignment.topic_partitions), answer.member_epoch]
            self.teller.let_pass(0.2)
            answer = self.heartbeat(answer.member_epoch)
        return [0, answer.member_epoch]

    def starts(self) -> list[Any]:
        """DescribeShareGroupOffsets of all there is: codes and start offsets."""
        request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(GROUP, None)])
        group = self.teller.ask(self.node, request, 1).groups[0]
        rows = [row for topic in group.topics for row in topic.partitions]
        return [group.error_code, *([row.error_code, row.start_offset] for row in rows)]

    def delete_offsets(self) -> DeleteShareGroupOffsetsRequest:
        """The request that has the state of the topic deleted."""
        return DeleteShareGroupOffsetsRequest(GROUP, [DeleteShareGroupOffsetsRequestTopic(self.topic)])

    def alter(self, offset: int) -> AlterShareGroupOffsetsRequest:
        """The request that has the group begin elsewhere."""
        row = AlterShareGroupOffsetsRequestTopic(self.topic, [AlterShareGroupOffsetsRequestPartition(0, offset)])
        return AlterShareGroupOffsetsRequest(GROUP, [row])

    def fetched(self) -> Any:
        """What the member gets in a session of its own, once its load is over."""
        other = Teller(self.teller.venue)
        answer = answered(other.ask(self.node, fetch_request(self.topic_id, 0, wait_ms=2_000), 2))
        other.hang_up()
        return answer

    def end(self) -> None:
        """All nodes run again."""
        for other in self._others:
            self.teller.venue.start(other)
        self.teller.until(lambda: self.teller.partition(self.node, self.topic), lambda row: row["isr"] == [0, 1, 2])


def _altered(answer: Any) -> list[int]:
    return [answer.error_code, *(row.error_code for topic in answer.responses for row in topic.partitions)]


def _deleted(answer: Any) -> list[int]:
    return [answer.error_code, *(topic.error_code for topic in answer.responses)]


def a_deletion_meets_an_alteration(teller: Teller, seen: dict[str, Any]) -> None:
    """While an alteration is being stored the offsets are deleted: the group takes for initialised what is gone."""
    scene = Scene(teller, "met")
    seen["altered"] = teller.until(
        lambda: _altered(teller.ask(scene.node, scene.alter(0), 0)), lambda codes: codes == [0, 0]
    )
    seen["before"] = scene.starts()
    scene.hold()
    first, second = Teller(teller.venue), Teller(teller.venue)
    altering = first.later(scene.node, scene.alter(3), 0)
    deleting = second.later(scene.node, scene.delete_offsets(), 0)
    seen["during"] = scene.starts()
    scene.let_go()
    seen["altered meanwhile"] = _altered(altering())
    seen["deleted meanwhile"] = _deleted(deleting())
    seen["after"] = scene.starts()
    seen["assigned"], _ = scene.join(5)
    seen["fetched"] = scene.fetched()
    scene.heartbeat(-1)
    first.hang_up()
    second.hang_up()
    scene.end()


def a_deletion_is_tried_again(teller: Teller, seen: dict[str, Any]) -> None:
    """A deletion that was not in time is done again, after a member has had the state made anew."""
    scene = Scene(teller, "retried")
    teller.until(lambda: _altered(teller.ask(scene.node, scene.alter(0), 0)), lambda codes: codes == [0, 0])
    scene.hold()
    other = Teller(teller.venue)
    deleting = other.later(scene.node, scene.delete_offsets(), 0)
    teller.let_pass(_GIVEN_UP_S - 0.3)
    scene.let_go()
    seen["assigned"], epoch = scene.join(3)
    seen["made anew"] = scene.starts()
    seen["deleted"] = _deleted(deleting())
    seen["after"] = scene.starts()
    seen["heartbeat"] = scene.heartbeat(epoch).error_code
    seen["fetched"] = scene.fetched()
    scene.heartbeat(-1)
    other.hang_up()
    scene.end()


def an_initialisation_comes_late(teller: Teller, seen: dict[str, Any]) -> None:
    """An initialisation that was not in time is done again, after its group was deleted: the next one is fenced."""
    scene = Scene(teller, "fenced")
    for _ in range(3):  # The group's epoch is to be higher than that of the next group.
        scene.heartbeat(0, topic="nothing-of-this-name")
        scene.heartbeat(-1)
    scene.hold()
    joined = scene.heartbeat(0, topic="fenced")
    teller.let_pass(_GIVEN_UP_S)
    scene.let_go()
    scene.heartbeat(-1)
    seen["deleted"] = teller.ask(scene.node, DeleteGroupsRequest((GROUP,)), 2).results[0].error_code
    teller.let_pass(3)  # Until it has come again.
    seen["assigned"], epoch = scene.join(5)
    seen["a lower epoch"] = epoch < joined.member_epoch
    seen["starts"] = scene.starts()
    scene.heartbeat(-1)
    scene.end()


STORIES = (a_deletion_meets_an_alteration, a_deletion_is_tried_again, an_initialisation_comes_late)
