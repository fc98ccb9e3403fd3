"""Requests of a member of a share group, and the compared fields of their responses."""

from __future__ import annotations

from typing import Any

from kwire.messages.share_acknowledge import AcknowledgementBatch as AckBatch
from kwire.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from kwire.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from tests.nodes.scenario_client import GROUP, MEMBER, ScenarioClient

ACCEPT, RELEASE, REJECT = 1, 2, 3


def fetch_request(
    topic_id: bytes, epoch: int, *, index: int = 0, wait_ms: int = 1_000, listed: bool = True
) -> ShareFetchRequest:
    """A ShareFetch of the member for one partition of the topic."""
    topics = [FetchTopic(topic_id, [FetchPartition(index)])] if listed else []
    limits: dict[str, Any] = {
        "max_wait_ms": wait_ms,
        "min_bytes": 1,
        "max_bytes": 1_000_000,
        "max_records": 500,
        "batch_size": 500,
    }
    return ShareFetchRequest(GROUP, MEMBER, epoch, topics=topics, **limits)


def summarize_response(response: Any) -> Any:
    """The compared fields of a response to ShareFetch or ShareAcknowledge."""
    if response is None:
        return "no answer"
    rows = []
    for row in (row for topic in response.responses for row in topic.partitions):
        shown: dict[str, Any] = {"error": row.error_code}
        if hasattr(row, "acquired_records"):
            runs = row.acquired_records
            shown["acquired"] = [[run.first_offset, run.last_offset, run.delivery_count] for run in runs]
        if row.error_code:
            shown["leader"] = [row.current_leader.leader_id, row.current_leader.leader_epoch]
        rows.append(shown)
    endpoints = sorted(endpoint.node_id for endpoint in response.node_endpoints)
    return {"error": response.error_code, "rows": rows, "endpoints": endpoints}


def fetch_share_records(client: ScenarioClient, node: int, topic_id: bytes, epoch: int, *, index: int = 0) -> Any:
    """Fetch until records have been acquired; only the first fetch of a session may be repeated."""
    if epoch:
        return summarize_response(client.send(node, fetch_request(topic_id, epoch, listed=False), 2))
    return client.wait_until(
        lambda: summarize_response(client.send(node, fetch_request(topic_id, 0, index=index), 2)),
        lambda answer: any(row["acquired"] for row in answer["rows"]),
    )


def acknowledge_run(
    client: ScenarioClient, node: int, topic_id: bytes, epoch: int, run: tuple[int, int], *, kind: int = ACCEPT
) -> Any:
    """Acknowledge one run of offsets of partition 0."""
    topics = [AcknowledgeTopic(topic_id, [AcknowledgePartition(0, [AckBatch(*run, (kind,))])])]
    return summarize_response(client.send(node, ShareAcknowledgeRequest(GROUP, MEMBER, epoch, topics=topics), 2))
