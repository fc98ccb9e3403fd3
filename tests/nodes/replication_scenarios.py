"""Followers that lag: acks=all, the ISR and the high watermark, and consumers that read from followers (KIP-392).

A follower lags while its broker is paused. In some of the scenarios the client then fetches in its place, as a broker
would, so that the leader's answers can be compared step by step.
"""

from __future__ import annotations

from typing import Any

from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.records import read_batches
from tests.nodes.replica_requests import (
    alter_topic_config,
    append_batch,
    fetch_epoch_end,
    fetch_records,
    list_offset,
    produce_request,
    summarize_produce,
)
from tests.nodes.scenario_client import ScenarioClient

_LEADER, _FOLLOWER = 1, 2


def fetch_as_follower(client: ScenarioClient, topic: str, offset: int, *, last: int = -1, epoch: int = 0) -> Any:
    """The leader's response to a follower: code, high watermark, log start, values, diverging epoch if any."""
    partition = FetchPartition(0, epoch, offset, last, log_start_offset=0, partition_max_bytes=1_000_000)
    topics = [FetchTopic(topic, partitions=[partition])]
    request = FetchRequest(replica_id=_FOLLOWER, max_wait_ms=0, min_bytes=1, max_bytes=1_000_000, topics=topics)
    row = client.send(_LEADER, request, 12).responses[0].partitions[0]
    values = [
        f"{record.offset}{(record.value or b'').decode()}"
        for batch in read_batches(bytes(row.records or b""))
        for record in batch.records()
    ]
    observed = [row.error_code, row.high_watermark, row.log_start_offset, " ".join(values)]
    if row.diverging_epoch.epoch >= 0:
        observed.append({"diverging": [row.diverging_epoch.epoch, row.diverging_epoch.end_offset]})
    return observed


def fetch_in_rack(client: ScenarioClient, topic: str, offset: int, rack: str, *, node: int = _LEADER) -> Any:
    """The response to a consumer in a rack: code, high watermark, preferred replica, values."""
    topics = [FetchTopic(topic, partitions=[FetchPartition(0, -1, offset, -1, partition_max_bytes=1_000_000)])]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1_000_000, topics=topics, rack_id=rack)
    row = client.send(node, request, 12).responses[0].partitions[0]
    count = sum(len(list(batch.records())) for batch in read_batches(bytes(row.records or b"")))
    return [row.error_code, row.high_watermark, row.preferred_read_replica, count]


def _create(client: ScenarioClient, topic: str, least: str = "1") -> None:
    client.create_topic(topic, [(_LEADER, _FOLLOWER)])
    # The records are old, and the scenario takes longer than it takes real brokers to look for such.
    alter_topic_config(client, topic, {"min.insync.replicas": least, "retention.ms": "-1"})
    client.pass_time(1)  # The follower's first fetch.


def _resume(client: ScenarioClient, topic: str) -> Any:
    client.cluster.resume(_FOLLOWER)
    return client.wait_for_partition(0, topic, isr=[_LEADER, _FOLLOWER])


def producers_wait_for_a_slow_follower(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """With acks=all they wait until the follower leaves the ISR; then they are answered by the leader alone."""
    _create(client, "slow")
    _create(client, "slow-strict", "2")
    observed["both in sync"] = append_batch(client, _LEADER, "slow", b"a", 2, acks=-1)
    append_batch(client, _LEADER, "slow-strict", b"a", 2, acks=-1)
    client.pass_time(1)
    client.cluster.pause(_FOLLOWER)
    others = [ScenarioClient(client.cluster) for _ in range(3)]
    hasty = others[0].send_async(_LEADER, produce_request("slow", b"b", 1, acks=-1, timeout_ms=500), 12)
    observed["times out"] = summarize_produce(hasty())
    observed["acks 1"] = append_batch(client, _LEADER, "slow", b"c", 1, acks=1)
    observed["held"] = fetch_records(client, _LEADER, "slow")
    observed["latest"] = list_offset(client, _LEADER, "slow")
    patient = others[1].send_async(_LEADER, produce_request("slow", b"d", 1, acks=-1, timeout_ms=30_000), 12)
    strict = others[2].send_async(_LEADER, produce_request("slow-strict", b"b", 1, acks=-1, timeout_ms=9_000), 12)
    observed["in sync at first"] = client.describe_partition(0, "slow")
    observed["patient"] = summarize_produce(patient())
    observed["shrunk"] = client.wait_for_partition(0, "slow", isr=[_LEADER])
    observed["read by the leader alone"] = fetch_records(client, _LEADER, "slow")
    observed["strict"] = summarize_produce(strict())
    observed["strict, shrunk"] = client.wait_for_partition(0, "slow-strict", isr=[_LEADER])
    observed["strict, later"] = append_batch(client, _LEADER, "slow-strict", b"c", 1, acks=-1)
    observed["strict, held"] = fetch_records(client, _LEADER, "slow-strict")
    for other in others:
        other.close()
    observed["grown"] = _resume(client, "slow")
    observed["strict, grown"] = client.wait_for_partition(0, "slow-strict", isr=[_LEADER, _FOLLOWER])
    observed["strict, read"] = client.wait_until(
        lambda: fetch_records(client, _LEADER, "slow-strict"), lambda row: row[1] == 3
    )
    observed["at the follower"] = client.wait_until(
        lambda: fetch_records(client, _FOLLOWER, "slow"), lambda row: row[1] == 5
    )


def a_follower_answers_consumers(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """A follower has its own high watermark and end: within them it answers as the leader does."""
    _create(client, "followed-by")
    observed["empty"] = fetch_records(client, _FOLLOWER, "followed-by")
    append_batch(client, _LEADER, "followed-by", b"a", 3, acks=-1)
    observed["read"] = client.wait_until(
        lambda: fetch_records(client, _FOLLOWER, "followed-by"), lambda row: row[1] == 3
    )
    observed["at its end"] = fetch_records(client, _FOLLOWER, "followed-by", 3)
    observed["beyond its end"] = fetch_records(client, _FOLLOWER, "followed-by", 4)
    observed["with the epoch"] = fetch_records(client, _FOLLOWER, "followed-by", 2, epoch=0, last=0)
    observed["with a later epoch"] = fetch_records(client, _FOLLOWER, "followed-by", 2, epoch=1, last=0)
    observed["diverging"] = fetch_records(client, _FOLLOWER, "followed-by", 9, epoch=0, last=0)
    observed["list offsets"] = list_offset(client, _FOLLOWER, "followed-by")
    observed["epoch end"] = fetch_epoch_end(client, _FOLLOWER, "followed-by", 0)
    observed["produce"] = append_batch(client, _FOLLOWER, "followed-by", b"b", 1, acks=-1)


def the_leader_answers_a_follower(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """The high watermark moves when the follower fetches from the end, and the follower learns it one fetch later."""
    topic = "stepped"
    _create(client, topic)
    append_batch(client, _LEADER, topic, b"a", 2, acks=-1)
    client.pass_time(1)
    client.cluster.pause(_FOLLOWER)
    other = ScenarioClient(client.cluster)
    waiting = other.send_async(_LEADER, produce_request(topic, b"b", 2, acks=-1, timeout_ms=30_000), 12)
    observed["beyond the high watermark"] = fetch_as_follower(client, topic, 2, last=0)
    observed["consumer, before"] = fetch_records(client, _LEADER, topic)
    observed["at the end"] = fetch_as_follower(client, topic, 4, last=0)
    observed["produced"] = summarize_produce(waiting())
    observed["consumer, after"] = fetch_records(client, _LEADER, topic)
    observed["once more"] = fetch_as_follower(client, topic, 4, last=0)
    observed["beyond the end"] = fetch_as_follower(client, topic, 5, last=0)
    observed["beyond the end, without an epoch"] = fetch_as_follower(client, topic, 5)
    observed["of an unknown epoch"] = fetch_as_follower(client, topic, 4, last=3)
    observed["in a later leader epoch"] = fetch_as_follower(client, topic, 4, last=0, epoch=2)
    append_batch(client, _LEADER, topic, b"c", 1, acks=1)
    observed["shrunk"] = client.wait_for_partition(0, topic, isr=[_LEADER])
    observed["behind"] = fetch_as_follower(client, topic, 4, last=0)
    client.pass_time(0.3)
    observed["still out of sync"] = client.describe_partition(0, topic)
    observed["caught up"] = fetch_as_follower(client, topic, 5, last=0)
    observed["grown"] = client.wait_for_partition(0, topic, isr=[_LEADER, _FOLLOWER])
    other.close()
    _resume(client, topic)


def consumers_are_sent_to_followers_in_sync(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """The leader names the replica in the consumer's rack, if it is in sync and has the offset (KIP-392)."""
    topic = "racked"
    _create(client, topic)
    append_batch(client, _LEADER, topic, b"a", 3, acks=-1)
    client.pass_time(1)
    observed["its rack"] = fetch_in_rack(client, topic, 0, "rack-2")
    observed["its rack, at the end"] = fetch_in_rack(client, topic, 3, "rack-2")
    observed["its rack, beyond the end"] = fetch_in_rack(client, topic, 4, "rack-2")
    observed["the leader's rack"] = fetch_in_rack(client, topic, 0, "rack-1")
    observed["a rack without a replica"] = fetch_in_rack(client, topic, 0, "rack-0")
    observed["no rack"] = fetch_in_rack(client, topic, 0, "")
    observed["at the follower"] = client.wait_until(
        lambda: fetch_in_rack(client, topic, 0, "rack-2", node=_FOLLOWER), lambda row: row[1] == 3
    )
    client.cluster.pause(_FOLLOWER)
    append_batch(client, _LEADER, topic, b"b", 1, acks=1)
    observed["paused, what it has"] = fetch_in_rack(client, topic, 2, "rack-2")
    observed["paused, what it lacks"] = fetch_in_rack(client, topic, 4, "rack-2")
    client.wait_for_partition(0, topic, isr=[_LEADER])
    observed["out of sync"] = fetch_in_rack(client, topic, 2, "rack-2")
    _resume(client, topic)
    client.pass_time(1)
    observed["in sync again"] = fetch_in_rack(client, topic, 4, "rack-2")


SCENARIOS = (
    producers_wait_for_a_slow_follower,
    a_follower_answers_consumers,
    the_leader_answers_a_follower,
    consumers_are_sent_to_followers_in_sync,
)
