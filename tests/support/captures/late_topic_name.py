"""A capture that names a topic after the rows that need the name."""

from __future__ import annotations

from kwire.headers import encode_request, encode_response
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from kwire.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest, ShareFetchResponse
from tests.support.captures.capture_files import CapturedConnection, build_pcap

TOPIC_ID = b"\1" * 16


def late_name_capture(others: int = 0) -> bytes:
    """A capture that names a topic after the row that needs it and a number of other rows."""
    fetch = ShareFetchRequest("g", "m", 0, topics=[FetchTopic(TOPIC_ID, [FetchPartition(3)])])
    named = MetadataResponse(topics=[MetadataResponseTopic(name="mine", topic_id=TOPIC_ID)])
    talk = (
        CapturedConnection()
        .open()
        .send_requests(encode_request(fetch, 2, 0, "me"))
        .send_responses(encode_response(ShareFetchResponse(), 2, 0))
    )
    for number in range(1, others + 1):
        talk.send_requests(encode_request(HeartbeatRequest(), 0, number, "me"))
        talk.send_responses(encode_response(HeartbeatResponse(), 0, number))
    talk.send_requests(encode_request(MetadataRequest(), 12, others + 1, "me"))
    return build_pcap(talk.send_responses(encode_response(named, 12, others + 1)).close().packets)
