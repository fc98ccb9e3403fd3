"""Dead-letter queues of share groups while leaders move (KIP-1191, release 4.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.messages.read_share_group_state import PartitionData as ReadPartition
from kwire.messages.read_share_group_state import ReadShareGroupStateRequest, ReadStateData
from kwire.messages.read_share_group_state_summary import PartitionData as SummaryPartition
from kwire.messages.read_share_group_state_summary import ReadShareGroupStateSummaryRequest, ReadStateSummaryData
from kwire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kwire.records import read_batches
from kwire.uuids import to_text
from tests.nodes.coordinator_scenarios import find_coordinator, is_available
from tests.nodes.replica_requests import PREFERRED, alter_topic_config, append_batch, elect_leaders
from tests.nodes.scenario_client import GROUP, ScenarioClient
from tests.nodes.share_requests import (
    REJECT,
    RELEASE,
    acknowledge_run,
    fetch_request,
    fetch_share_records,
    summarize_response,
)

QUEUE = "dlq.rejected"
_GROUP_RESOURCE, _SET, _DELETE, _UPGRADE = 32, 0, 1, 1
_ARCHIVING = 3
#: Long enough for a node to start.
_LONG_LOCKS = {"share.record.lock.duration.ms": "60000"}
_SHORT_LOCKS = {"share.record.lock.duration.ms": "15000", "share.delivery.count.limit": "2"}
_STATES = "__share_group_state"
#: The node that leads the source, the one that leads the queue, and the coordinator of the source's state.
_LEADER, _QUEUE_LEADER, _COORDINATOR = 1, 2, 0


def _alter_group(client: ScenarioClient, operation: int, values: Mapping[str, str] = _LONG_LOCKS) -> None:
    """Set or delete the queue of the group and other values."""
    values = {"errors.deadletterqueue.topic.name": QUEUE, **values}
    rows = [AlterableConfig(name, operation, value if operation == _SET else None) for name, value in values.items()]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(_GROUP_RESOURCE, GROUP, rows)])
    answer = client.wait_until(lambda: client.send(_LEADER, request), lambda _: True)
    assert answer.responses[0].error_code == 0, answer


def _create_queue(client: ScenarioClient, replicas: tuple[int, ...], values: Mapping[str, str] = _LONG_LOCKS) -> None:
    """Create the queue of the group, which gets these values, in a cluster that has dead-letter queues."""
    update = UpdateFeaturesRequest(30_000, [FeatureUpdateKey("share.version", 2, upgrade_type=_UPGRADE)])
    answer = client.send(0, update, 2)
    assert answer.error_code == 0, answer
    client.create_topic(QUEUE, [replicas])
    alter_topic_config(client, QUEUE, {"errors.deadletterqueue.group.enable": "true"})
    _alter_group(client, _SET, values)


def _deliver(client: ScenarioClient, topic: str, count: int) -> tuple[bytes, Any]:
    """Deliver the first records of a topic to a member of the group. Returns: the topic's id, and the answer to it."""
    topic_id = client.topic_id(topic)
    client.join_share_group(topic)
    append_batch(client, _LEADER, topic, b"a", count, acks=-1)
    return topic_id, fetch_share_records(client, _LEADER, topic_id, 0)


def _read_queue(client: ScenarioClient, node: int) -> list[dict[str, str]]:
    """The headers of the dead letters, in their order in the queue."""
    topics = [FetchTopic(QUEUE, partitions=[FetchPartition(0, -1, 0, partition_max_bytes=1_000_000)])]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1_000_000, topics=topics)
    row = client.send(node, request, 12).responses[0].partitions[0]
    return [
        {name.removeprefix("__dlq.errors."): (value or b"").decode() for name, value in record.headers}
        for batch in read_batches(bytes(row.records or b""))
        for record in batch.records()
    ]


def _wait_for_dead_letters(client: ScenarioClient, node: int, count: int) -> list[dict[str, str]]:
    """Wait for so many dead letters. Returns: them, by offset, as pauses before retries are random."""
    dead_letters = client.wait_until(lambda: _read_queue(client, node), lambda rows: len(rows) >= count)
    return sorted(dead_letters, key=lambda headers: int(headers["offset"]))


def _state_coordinator(client: ScenarioClient, topic_id: bytes) -> int:
    return find_coordinator(client, _LEADER, 2, f"{GROUP}:{to_text(topic_id)}:0")


def _spread_coordinators(client: ScenarioClient, topic_id: bytes) -> None:
    """Let each node coordinate a third of the state again, after any of them has been down."""
    _state_coordinator(client, topic_id)  # Creates the topic in a new cluster.
    for index in range(3):
        client.wait_for_partition(_LEADER, _STATES, index, isr=[0, 1, 2])
    elect_leaders(client, 0, PREFERRED, {_STATES: (0, 1, 2)})


def _read_state(client: ScenarioClient, topic: str) -> list[Any]:
    """The state by its coordinator, once it has one: code, start, and the batches with their states and counts."""
    topic_id = client.topic_id(topic, _LEADER)
    epoch = client.describe_partition(_LEADER, topic)["epoch"]
    request = ReadShareGroupStateRequest(GROUP, [ReadStateData(topic_id, [ReadPartition(0, epoch)])])

    def read() -> Any:
        return client.send(_state_coordinator(client, topic_id), request, 0).results[0].partitions[0]

    row = client.wait_until(read, is_available)
    batches = [[one.first_offset, one.last_offset, one.delivery_state, one.delivery_count] for one in row.state_batches]
    return [row.error_code, row.start_offset, batches]


def _wait_until_archived(client: ScenarioClient, topic: str) -> list[Any]:
    """Wait until no stored batch is archiving. Returns: the state."""
    state: list[Any] = client.wait_until(
        lambda: _read_state(client, topic), lambda state: all(batch[2] != _ARCHIVING for batch in state[2])
    )
    return state


def dead_letters_follow_the_leader_of_their_queue(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """The leader of the queue is dead when records are rejected; their dead letters are written to the next one."""
    _create_queue(client, (_QUEUE_LEADER, 0))
    client.create_topic("followed", [(_LEADER, 0)])
    topic_id, observed["delivered"] = _deliver(client, "followed", 4)
    observed["first"] = acknowledge_run(client, _LEADER, topic_id, 1, (0, 0), kind=REJECT)
    observed["first dead letter"] = _wait_for_dead_letters(client, _QUEUE_LEADER, 1)
    client.wait_for_partition(0, QUEUE, isr=[0, _QUEUE_LEADER])
    client.pass_time(0.3)  # The first one is archived when its replicas have it.
    client.cluster.kill(_QUEUE_LEADER)
    observed["rejected"] = acknowledge_run(client, _LEADER, topic_id, 2, (1, 1), kind=REJECT)
    client.wait_for_partition(0, QUEUE, leader=0)
    observed["dead letters"] = _wait_for_dead_letters(client, 0, 2)
    observed["archived"] = _wait_until_archived(client, "followed")
    observed["accepted"] = acknowledge_run(client, _LEADER, topic_id, 3, (2, 3))
    _alter_group(client, _DELETE)
    client.cluster.start(_QUEUE_LEADER)
    client.wait_for_brokers(0, [0, 1, 2])


def a_leader_moves_while_dead_letters_wait(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """The queue has no leader, and the source gets another one: both leaders of the source write the dead letters."""
    client.create_topic("handed-over", [(0, _LEADER)])
    client.cluster.stop(0)
    client.wait_for_partition(_LEADER, "handed-over", leader=_LEADER)
    client.cluster.start(0)
    client.wait_for_partition(0, "handed-over", isr=[0, _LEADER])
    _create_queue(client, (_QUEUE_LEADER,))
    topic_id, observed["delivered"] = _deliver(client, "handed-over", 4)
    client.cluster.stop(_QUEUE_LEADER)
    client.wait_for_partition(0, QUEUE, leader=-1)
    observed["rejected"] = acknowledge_run(client, _LEADER, topic_id, 1, (0, 0), kind=REJECT)
    observed["elected"] = elect_leaders(client, 0, PREFERRED, {"handed-over": (0,)})
    observed["at the former leader"] = summarize_response(
        client.send(_LEADER, fetch_request(topic_id, 2, listed=False), 2)
    )
    observed["at the next leader"] = fetch_share_records(client, 0, topic_id, 0)
    observed["archiving"] = _read_state(client, "handed-over")
    client.cluster.start(_QUEUE_LEADER)
    observed["dead letters"] = _wait_for_dead_letters(client, _QUEUE_LEADER, 2)
    observed["archived"] = _wait_until_archived(client, "handed-over")
    observed["accepted"] = acknowledge_run(client, 0, topic_id, 1, (1, 3))
    _alter_group(client, _DELETE)


def the_share_coordinator_moves_while_dead_letters_wait(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """The queue has no leader, and the state of the source gets another coordinator, which stores its archiving."""
    _create_queue(client, (_QUEUE_LEADER,))
    client.create_topic("recorded", [(_LEADER,)])
    _spread_coordinators(client, client.topic_id("recorded"))
    while _state_coordinator(client, client.topic_id("recorded")) != _COORDINATOR:
        client.create_topic("recorded", [(_LEADER,)])
    alter_topic_config(client, _STATES, {"min.insync.replicas": "1"})
    topic_id, observed["delivered"] = _deliver(client, "recorded", 4)
    client.cluster.stop(_QUEUE_LEADER)
    client.wait_for_partition(_LEADER, QUEUE, leader=-1)
    observed["rejected"] = acknowledge_run(client, _LEADER, topic_id, 1, (0, 0), kind=REJECT)
    observed["archiving"] = _read_state(client, "recorded")
    client.cluster.stop(_COORDINATOR)
    client.wait_for_brokers(_LEADER, [_LEADER])
    observed["at the next coordinator"] = _read_state(client, "recorded")
    client.cluster.start(_QUEUE_LEADER)
    observed["dead letters"] = _wait_for_dead_letters(client, _QUEUE_LEADER, 1)
    observed["archived"] = _wait_until_archived(client, "recorded")
    observed["accepted"] = acknowledge_run(client, _LEADER, topic_id, 2, (1, 3))
    client.cluster.start(_COORDINATOR)
    client.wait_for_brokers(_LEADER, [0, 1, 2])
    alter_topic_config(client, _STATES, {"min.insync.replicas": "2"})
    _alter_group(client, _DELETE)


def _read_summary(client: ScenarioClient, topic: str) -> list[int]:
    """The stored summary: code, start, and the number of complete records from the start on."""
    topic_id = client.topic_id(topic, 0)
    request = ReadShareGroupStateSummaryRequest(
        GROUP, [ReadStateSummaryData(topic_id, [SummaryPartition(0, client.describe_partition(0, topic)["epoch"])])]
    )

    def read() -> Any:
        return client.send(_state_coordinator(client, topic_id), request, 1).results[0].partitions[0]

    row = client.wait_until(read, is_available)
    return [row.error_code, row.start_offset, row.delivery_complete_count]


def a_rejection_is_not_stored_before_its_lock_ends(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """A record at the delivery limit is rejected, but its state cannot be stored, and its lock runs out meanwhile."""
    _create_queue(client, (0,), _SHORT_LOCKS)
    client.create_topic("unstored", [(0,)])
    topic_id = client.topic_id("unstored")
    client.join_share_group("unstored")
    append_batch(client, 0, "unstored", b"a", 2, acks=-1)
    observed["delivered"] = fetch_share_records(client, 0, topic_id, 0)
    observed["released"] = acknowledge_run(client, 0, topic_id, 1, (0, 1), kind=RELEASE)
    observed["delivered again"] = fetch_share_records(client, 0, topic_id, 2)
    observed["accepted"] = acknowledge_run(client, 0, topic_id, 3, (1, 1))
    observed["before"] = _read_summary(client, "unstored")
    for node in (1, 2):
        client.cluster.stop(node)
    client.wait_for_brokers(0, [0])
    observed["rejected"] = acknowledge_run(client, 0, topic_id, 4, (0, 0), kind=REJECT)
    for node in (1, 2):
        client.cluster.start(node)
    client.wait_for_brokers(0, [0, 1, 2])
    append_batch(client, 0, "unstored", b"b", 2, acks=-1)
    observed["delivered next"] = fetch_share_records(client, 0, topic_id, 5)
    observed["accepted next"] = acknowledge_run(client, 0, topic_id, 6, (2, 2))
    observed["after"] = _read_summary(client, "unstored")
    observed["accepted last"] = acknowledge_run(client, 0, topic_id, 7, (3, 3))
    observed["at the end"] = _read_summary(client, "unstored")
    observed["dead letters"] = _read_queue(client, 0)
    _alter_group(client, _DELETE, _SHORT_LOCKS)


SCENARIOS = (
    dead_letters_follow_the_leader_of_their_queue,
    a_leader_moves_while_dead_letters_wait,
    the_share_coordinator_moves_while_dead_letters_wait,
    a_rejection_is_not_stored_before_its_lock_ends,
)
