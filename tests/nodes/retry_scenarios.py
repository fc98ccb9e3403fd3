"""Late retries of the persister that undo later changes."""

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
from tests.nodes.coordinator_scenarios import find_coordinator
from tests.nodes.replica_requests import alter_topic_config
from tests.nodes.scenario_client import GROUP, MEMBER, ScenarioClient
from tests.nodes.share_requests import fetch_request, summarize_response

_STATES = "__share_group_state"
#: Longer than a write of the share coordinator waits for its replicas, and shorter than until it is tried again.
_GIVEN_UP_S = 5.4


class RetrySetup:
    """A cluster of which only the coordinator runs, which suffices for everything except stored state."""

    def __init__(self, client: ScenarioClient, topic: str) -> None:
        self.client = client
        self.topic = topic
        client.create_topic(topic, [(0, 1, 2)])
        self.topic_id = client.topic_id(topic)
        self.node = client.find_coordinator(0)
        self._others = [(self.node + 1) % 3, (self.node + 2) % 3]
        find_coordinator(client, 0, 2, f"{GROUP}:{to_text(self.topic_id)}:0")
        alter_topic_config(client, "__consumer_offsets", {"min.insync.replicas": "1"})
        alter_topic_config(client, _STATES, {"min.insync.replicas": "1"})
        client.wait_until(self._forget_group, lambda code: code in (0, 69))
        for other in self._others:
            client.cluster.stop(other)
        client.wait_for_brokers(self.node, [self.node])
        client.wait_for_partition(self.node, topic, isr=[self.node])
        self.append_to_all_partitions()

    def _forget_group(self) -> int:
        answer = self.client.send(self.node, DeleteGroupsRequest((GROUP,)), 2)
        return int(answer.results[0].error_code)

    def stop_commits(self) -> None:
        """From now on no stored state is committed."""
        alter_topic_config(self.client, _STATES, {"min.insync.replicas": "2"}, node=self.node)
        self.client.pass_time(0.5)

    def resume_commits(self) -> None:
        """Everything that was stored is committed."""
        alter_topic_config(self.client, _STATES, {"min.insync.replicas": "1"}, node=self.node)
        self.client.pass_time(0.3)
        self.append_to_all_partitions()

    def append_to_all_partitions(self) -> None:
        """Append a record to every partition of the share coordinator's topic."""
        for number in range(16):
            row = PartitionData(partition=0, state_epoch=0, start_offset=0)
            request = InitializeShareGroupStateRequest(f"tick-{number}", [InitializeStateData(self.topic_id, [row])])
            self.client.wait_until(
                lambda request=request: self.client.send(self.node, request, 0),  # type: ignore[misc]
                lambda answer: answer.results[0].partitions[0].error_code not in (14, 15, 16),
            )

    def send_heartbeat(self, epoch: int, *, topic: str | None = None) -> Any:
        """Send a heartbeat of the only member. Returns: its response."""
        names = None if topic is None else (topic,)
        return self.client.send(
            self.node, ShareGroupHeartbeatRequest(GROUP, MEMBER, epoch, subscribed_topic_names=names), 1
        )

    def join(self, tries: int) -> list[int]:
        """Join, and send a few heartbeats until a topic is assigned. Returns: the number of topics, and the epoch."""
        answer = self.send_heartbeat(0, topic=self.topic)
        for _ in range(tries):
            if answer.assignment is not None and answer.assignment.topic_partitions:
                return [len(answer.assignment.topic_partitions), answer.member_epoch]
            self.client.pass_time(0.2)
            answer = self.send_heartbeat(answer.member_epoch)
        return [0, answer.member_epoch]

    def describe_start_offsets(self) -> list[Any]:
        """DescribeShareGroupOffsets of all topics: codes and start offsets."""
        request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(GROUP, None)])
        group = self.client.send(self.node, request, 1).groups[0]
        rows = [row for topic in group.topics for row in topic.partitions]
        return [group.error_code, *([row.error_code, row.start_offset] for row in rows)]

    def delete_request(self) -> DeleteShareGroupOffsetsRequest:
        """The request that deletes the state of the topic."""
        return DeleteShareGroupOffsetsRequest(GROUP, [DeleteShareGroupOffsetsRequestTopic(self.topic)])

    def alter_request(self, offset: int) -> AlterShareGroupOffsetsRequest:
        """The request that alters the group's start offset."""
        row = AlterShareGroupOffsetsRequestTopic(self.topic, [AlterShareGroupOffsetsRequestPartition(0, offset)])
        return AlterShareGroupOffsetsRequest(GROUP, [row])

    def fetch_records(self) -> Any:
        """The records that the member acquires in a new session, after its partition is loaded."""
        other = ScenarioClient(self.client.cluster)
        answer = summarize_response(other.send(self.node, fetch_request(self.topic_id, 0, wait_ms=2_000), 2))
        other.close()
        return answer

    def start_all_nodes(self) -> None:
        """Start all nodes."""
        for other in self._others:
            self.client.cluster.start(other)
        self.client.wait_for_partition(self.node, self.topic, isr=[0, 1, 2])


def _alter_codes(answer: Any) -> list[int]:
    return [answer.error_code, *(row.error_code for topic in answer.responses for row in topic.partitions)]


def _delete_codes(answer: Any) -> list[int]:
    return [answer.error_code, *(topic.error_code for topic in answer.responses)]


def a_deletion_meets_an_alteration(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """The offsets are deleted while an alteration is being stored: the group treats deleted state as initialised."""
    setup = RetrySetup(client, "met")
    observed["altered"] = client.wait_until(
        lambda: _alter_codes(client.send(setup.node, setup.alter_request(0), 0)), lambda codes: codes == [0, 0]
    )
    observed["before"] = setup.describe_start_offsets()
    setup.stop_commits()
    first, second = ScenarioClient(client.cluster), ScenarioClient(client.cluster)
    altering = first.send_async(setup.node, setup.alter_request(3), 0)
    deleting = second.send_async(setup.node, setup.delete_request(), 0)
    observed["during"] = setup.describe_start_offsets()
    setup.resume_commits()
    observed["altered meanwhile"] = _alter_codes(altering())
    observed["deleted meanwhile"] = _delete_codes(deleting())
    observed["after"] = setup.describe_start_offsets()
    observed["assigned"], _ = setup.join(5)
    observed["fetched"] = setup.fetch_records()
    setup.send_heartbeat(-1)
    first.close()
    second.close()
    setup.start_all_nodes()


def a_deletion_is_tried_again(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """A deletion that timed out is retried after a member has caused the state to be created again."""
    setup = RetrySetup(client, "retried")
    client.wait_until(
        lambda: _alter_codes(client.send(setup.node, setup.alter_request(0), 0)), lambda codes: codes == [0, 0]
    )
    setup.stop_commits()
    other = ScenarioClient(client.cluster)
    deleting = other.send_async(setup.node, setup.delete_request(), 0)
    client.pass_time(_GIVEN_UP_S - 0.3)
    setup.resume_commits()
    observed["assigned"], epoch = setup.join(3)
    observed["created again"] = setup.describe_start_offsets()
    observed["deleted"] = _delete_codes(deleting())
    observed["after"] = setup.describe_start_offsets()
    observed["heartbeat"] = setup.send_heartbeat(epoch).error_code
    observed["fetched"] = setup.fetch_records()
    setup.send_heartbeat(-1)
    other.close()
    setup.start_all_nodes()


def an_initialisation_comes_late(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """An initialisation that timed out is retried after its group was deleted: the next one is fenced."""
    setup = RetrySetup(client, "fenced")
    for _ in range(3):  # The group's epoch is to be higher than that of the next group.
        setup.send_heartbeat(0, topic="nothing-of-this-name")
        setup.send_heartbeat(-1)
    setup.stop_commits()
    joined = setup.send_heartbeat(0, topic="fenced")
    client.pass_time(_GIVEN_UP_S)
    setup.resume_commits()
    setup.send_heartbeat(-1)
    observed["deleted"] = client.send(setup.node, DeleteGroupsRequest((GROUP,)), 2).results[0].error_code
    client.pass_time(3)  # Until it has come again.
    observed["assigned"], epoch = setup.join(5)
    observed["a lower epoch"] = epoch < joined.member_epoch
    observed["starts"] = setup.describe_start_offsets()
    setup.send_heartbeat(-1)
    setup.start_all_nodes()


SCENARIOS = (a_deletion_meets_an_alteration, a_deletion_is_tried_again, an_initialisation_comes_late)
