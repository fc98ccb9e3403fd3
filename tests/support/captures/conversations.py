"""Requests and responses of artificial connections, and what their rows show."""

from __future__ import annotations

from kwire.capture.model import Row
from kwire.headers import encode_request, encode_response
from kwire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Record, write_batch
from tests.support.captures.capture_files import CapturedConnection

VERSIONS = encode_request(ApiVersionsRequest("kwire", "1.0"), 3, 1, "me")
VERSIONS_RESPONSE = encode_response(ApiVersionsResponse(api_keys=[ApiVersion(18, 0, 4)]), 3, 1)


def identified() -> CapturedConnection:
    """A connection whose client has sent ApiVersions."""
    return CapturedConnection().open().exchange(VERSIONS, VERSIONS_RESPONSE)


def metadata_exchange(correlation_id: int) -> tuple[bytes, bytes]:
    return (
        encode_request(MetadataRequest(topics=None), 12, correlation_id, "me"),
        encode_response(MetadataResponse(cluster_id="c"), 12, correlation_id),
    )


def produce_request(correlation_id: int, value: bytes = b"v", *, acks: int = 1, timestamp: int = 5) -> bytes:
    """A Produce of one record."""
    batch = write_batch([Record(0, timestamp, b"k", value)])
    topics = [TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])]
    return encode_request(ProduceRequest(acks=acks, timeout_ms=9, topic_data=topics), 9, correlation_id, "me")


def summarize_rows(rows: list[Row]) -> list[tuple[object, object, object]]:
    """API, correlation id and status of each row."""
    return [(row["api_name"], row["correlation_id"], row["status"]) for row in rows]
