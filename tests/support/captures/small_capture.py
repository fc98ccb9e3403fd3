"""A small handwritten capture of a share-group member; group, topic, client and member have the given name."""

from __future__ import annotations

import base64
import struct
from pathlib import Path
from typing import Any

from kwire.capture.export.pcapng_writer import PcapngWriter, TcpConversation
from kwire.codec import encode, from_json
from kwire.records import Record, write_batch
from kwire.registry import api_name

START_NS = 1_795_257_723_000_000_000
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
# The content of every record: hostile markup, which must be escaped and not shown by default.
CONTENT = "<b onload=alert(1)>a secret value</b>"
METADATA, SHARE_FETCH, SHARE_ACKNOWLEDGE = 3, 78, 79

Tree = dict[str, Any]


def write(file: Path, name: str) -> None:
    """Metadata, acquisition of records 0-9, a second one of 3-4, acceptance of 0-2, rejection of 3, refusal of 4."""
    with file.open("wb") as target:
        writer = PcapngWriter(target)
        connection = TcpConversation(("127.0.0.1", 40_000), ("127.0.0.1", 9092))
        clock = START_NS
        for packet in connection.open():
            writer.write_packet(clock, packet)
        for correlation_id, (api_key, version, request, response) in enumerate(_exchanges(name)):
            asked = _request(api_key, version, correlation_id, name, request)
            for packet in connection.from_client(asked):
                writer.write_packet(clock := clock + 1_000_000, packet)
            for packet in connection.from_server(_response(api_key, version, correlation_id, response)):
                writer.write_packet(clock := clock + 2_000_000, packet)


def _exchanges(name: str) -> list[tuple[int, int, Tree, Tree]]:
    who = {"groupId": name, "memberId": name, "shareSessionEpoch": 1}
    return [
        (METADATA, 13, {"topics": None}, _metadata(name)),
        (SHARE_FETCH, 2, {**who, "topics": []}, _acquired((0, 9, 1))),
        (SHARE_FETCH, 2, {**who, "topics": []}, _acquired((3, 4, 2))),
        (SHARE_ACKNOWLEDGE, 2, {**who, "topics": _acks((0, 2, 1), (3, 3, 3))}, _settled(0)),
        # 121 is INVALID_RECORD_STATE.
        (SHARE_ACKNOWLEDGE, 2, {**who, "topics": _acks((4, 4, 1))}, _settled(121)),
    ]


def _metadata(name: str) -> Tree:
    return {"topics": [{"errorCode": 0, "name": name, "topicId": TOPIC_ID, "partitions": []}]}


def _acquired(first_last_count: tuple[int, int, int]) -> Tree:
    first, last, count = first_last_count
    ranges = [{"firstOffset": first, "lastOffset": last, "deliveryCount": count}]
    content = [Record(offset, 0, b"a secret key", f"{CONTENT} {offset}".encode()) for offset in range(first, last + 1)]
    records = base64.b64encode(write_batch(content)).decode()
    partition = {"partitionIndex": 0, "records": records, "acquiredRecords": ranges}
    return {"acquisitionLockTimeoutMs": 30_000, "responses": [{"topicId": TOPIC_ID, "partitions": [partition]}]}


def _acks(*ranges: tuple[int, int, int]) -> list[Tree]:
    batches = [{"firstOffset": first, "lastOffset": last, "acknowledgeTypes": [kind]} for first, last, kind in ranges]
    return [{"topicId": TOPIC_ID, "partitions": [{"partitionIndex": 0, "acknowledgementBatches": batches}]}]


def _settled(error: int) -> Tree:
    return {"responses": [{"topicId": TOPIC_ID, "partitions": [{"partitionIndex": 0, "errorCode": error}]}]}


def _request(api_key: int, version: int, correlation_id: int, client_id: str, tree: Tree) -> bytes:
    # Request header version 2, as flexible versions have it: the client id is still a classic string, then no tags.
    client = client_id.encode()
    header = struct.pack(">hhih", api_key, version, correlation_id, len(client)) + client + b"\0"
    return _frame(header + _body(f"{api_name(api_key)}Request", version, tree))


def _response(api_key: int, version: int, correlation_id: int, tree: Tree) -> bytes:
    name = f"{api_name(api_key)}Response"
    return _frame(struct.pack(">ix", correlation_id) + _body(name, version, tree))


def _body(name: str, version: int, tree: Tree) -> bytes:
    return encode(from_json(name, version, tree), version)


def _frame(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data
