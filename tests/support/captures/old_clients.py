"""Captures of old clients, in the versions that Kafka 4.0 removed."""

from __future__ import annotations

import msgspec

from kwire import registry
from kwire.codec import decode
from kwire.headers import encode_request, encode_response
from kwire.messages.before_4_0 import fetch, list_offsets, produce
from kwire.records import Codec, Record, TimestampType, write_batch
from kwire.registry import REMOVED_EDITION
from tests.support.captures.capture_files import CapturedConnection, build_pcapng
from tests.support.messages.golden_vectors import Vector, vectors_by_message

#: Columns decode bodies together where at least twelve have one version.
REPETITIONS = 5


def golden_pairs(api_key: int, version: int) -> list[tuple[Vector, Vector]]:
    name = registry.api_name(api_key)
    vectors = vectors_by_message(REMOVED_EDITION)
    return list(zip(vectors[f"{name}Request", version], vectors[f"{name}Response", version], strict=True))


def golden_connection(api_key: int, version: int) -> CapturedConnection:
    """Requests and responses that Kafka's own classes wrote, several times."""
    connection = CapturedConnection().open()
    for number, (asked, answered) in enumerate(golden_pairs(api_key, version) * REPETITIONS):
        request = decode(asked.message, version, asked.raw, edition=REMOVED_EDITION)
        frame = encode_request(request, version, number, "old-client")
        if getattr(request, "acks", 1) == 0:
            connection.send_requests(frame)
            continue
        response = decode(answered.message, version, answered.raw, edition=REMOVED_EDITION)
        connection.exchange(frame, encode_response(response, version, number))
    return connection


def old_records(magic: int, first_offset: int = 0, codec: Codec = Codec.NONE) -> bytes:
    times = (1_500_000_000_000, 1_500_000_000_001) if magic else (-1, -1)
    records = [Record(first_offset + at, time, b"key", b"value") for at, time in enumerate(times)]
    kind = TimestampType.CREATE_TIME if magic else TimestampType.NO_TIMESTAMP_TYPE
    return write_batch(records, magic=magic, codec=codec, timestamp_type=kind)


def old_exchanges() -> list[tuple[msgspec.Struct, msgspec.Struct | None, int]]:
    """What a client of 2015 sends: Produce 0 to 2, Fetch 0 to 3, ListOffsets 0."""
    exchanges: list[tuple[msgspec.Struct, msgspec.Struct | None, int]] = []
    for version in range(3):
        for acks in (1, 0):
            data = produce.PartitionProduceData(3, old_records(int(version == 2)))
            asked = produce.ProduceRequest(acks, 1500, [produce.TopicProduceData("orders", [data])])
            done = produce.PartitionProduceResponse(index=3, base_offset=40)
            answered = produce.ProduceResponse([produce.TopicProduceResponse("orders", [done])])
            exchanges.append((asked, answered if acks else None, version))
    for version in range(4):
        wanted = fetch.FetchTopic("orders", [fetch.FetchPartition(3, 40, 1 << 20)])
        records = old_records(int(version > 1), 40, Codec.GZIP)
        read = fetch.PartitionData(partition_index=3, high_watermark=42, records=records)
        response = fetch.FetchResponse(responses=[fetch.FetchableTopicResponse("orders", [read])])
        exchanges.append((fetch.FetchRequest(max_wait_ms=500, min_bytes=1, topics=[wanted]), response, version))
    asked_offsets = list_offsets.ListOffsetsTopic("orders", [list_offsets.ListOffsetsPartition(3, -1, 1)])
    offsets = list_offsets.ListOffsetsPartitionResponse(partition_index=3, old_style_offsets=(42, 0))
    answer = list_offsets.ListOffsetsResponse([list_offsets.ListOffsetsTopicResponse("orders", [offsets])])
    exchanges.append((list_offsets.ListOffsetsRequest(-1, [asked_offsets]), answer, 0))
    return exchanges


def old_client(repetitions: int = 1) -> bytes:
    """A capture of these exchanges."""
    connection = CapturedConnection().open()
    for number, (asked, answered, version) in enumerate(old_exchanges() * repetitions):
        request = encode_request(asked, version, number, "kafka-python-0.9")
        if answered is None:
            connection.send_requests(request)
        else:
            connection.exchange(request, encode_response(answered, version, number))
    return build_pcapng(connection.packets)
