"""The records of a streams group, byte for byte those of Apache Kafka 4.3.0 that was sent the same requests.

In streams_records.jsonl the hash of the metadata and the time of an assignment are "?".
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kwire.error_codes import ErrorCode
from kwire.messages.delete_groups import DeleteGroupsRequest
from tests.mockbroker.broker import Broker
from tests.mockbroker.group_broker import line_of
from tests.mockbroker.streams_kit import story

RECORDED = Path(__file__).with_name("streams_records.jsonl")
NOW = {"group.streams.initial.rebalance.delay.ms": "0", "group.streams.assignment.interval.ms": "0"}
HIDDEN = "?" * 16


def masked(kind: str, value: bytes | None) -> str | None:
    """A value in hex, without what no two brokers have in common."""
    if value is None:
        return None
    text = bytes(value).hex()
    if kind == "StreamsGroupMetadata":
        return text[:12] + HIDDEN + text[28:]
    return text[:-16] + HIDDEN if kind == "StreamsGroupTargetAssignmentMetadata" else text


def written(broker: Broker) -> list[dict[str, Any]]:
    """The rows of all batches about the group."""
    topic = broker.core.state.metadata.topic("__consumer_offsets")
    assert topic is not None
    logs = (broker.core.state.nodes[0].logs.get(topic.topic_id, row.index) for row in topic.partitions)
    batches = [batch for log in logs for batch in log.read(0, 1 << 60).batches]
    found = []
    for number, batch in enumerate(batches):
        for record in batch.records():
            line = line_of(record)
            value = masked(line.kind, record.value)
            found.append({"batch": number, "kind": line.kind, "member": line.key.get("memberId"), "bytes": value})
    return found


def test_every_record_of_a_groups_life_is_that_of_a_real_broker() -> None:
    broker = Broker(topics={"T": 2}, config=NOW)
    for request in story():
        answer = broker.ask(request, 0)
        assert answer.error_code == ErrorCode.NONE, answer.error_message
    broker.ask(DeleteGroupsRequest(("g",)), 2)

    assert written(broker) == [json.loads(line) for line in RECORDED.read_text("utf-8").splitlines()]
