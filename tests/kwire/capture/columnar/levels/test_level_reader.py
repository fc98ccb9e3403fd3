"""The levels below `messages` have the same rows by columns as in the streaming pipeline, with the same topic names."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache

import pyarrow as pa
import pytest

from kwire import registry
from kwire.capture import index
from kwire.capture.columnar.body_walker import BODIES_MIN
from kwire.capture.columnar.levels.body_source import BodySource
from kwire.capture.columnar.levels.level_reader import LEVELS, LevelReader
from kwire.capture.columnar.reader import ColumnarReader
from kwire.capture.index.scan import scanner
from kwire.capture.model import Row
from kwire.capture.options import ExchangeCondition, ExchangeFilter, Options
from kwire.capture.reader import read_flow_batches
from kwire.capture.rows.columns import level_columns
from kwire.capture.rows.levels import api_keys_of_level, options_for_level
from kwire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse
from kwire.messages.fetch import PartitionData as FetchedPartition
from kwire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from kwire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kwire.messages.share_acknowledge import AcknowledgementBatch as SettledBatch
from kwire.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from kwire.messages.share_acknowledge import PartitionData as AcknowledgedPartition
from kwire.messages.share_fetch import (
    AcknowledgementBatch,
    AcquiredRecords,
    FetchPartition,
    FetchTopic,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kwire.messages.share_fetch import PartitionData as SharedPartition
from kwire.records import Record
from kwire.records.batch import with_append_time
from kwire.records.writer import write_batch
from kwire.registry import DEFAULT_EDITION
from tests.support.captures.capture_files import CapturedConnection, CapturedPacket, build_pcap, read_ip_packets
from tests.support.captures.index_captures import (
    FILES,
    IMPAIRED,
    assert_rows_of_pipeline,
    batch_rows,
    connection_without_kafka,
    copy_connections,
    count_flows,
)
from tests.support.captures.message_captures import add_exchange
from tests.support.messages.golden_vectors import vectors_by_message

pytestmark = pytest.mark.slow

#: So many exchanges of one kind are decoded together.
TOGETHER = BODIES_MIN + 1
PRODUCE, FETCH, METADATA = ("Produce", 12), ("Fetch", 13), ("Metadata", 13)
SHARE_FETCH, SHARE_ACKNOWLEDGE = ("ShareFetch", 1), ("ShareAcknowledge", 1)
ONE, OTHER = b"\1" * 16, b"\2" * 16


def level_capture(add: Callable[[CapturedConnection, int], int], count: int = TOGETHER) -> bytes:
    """One connection. Args: add: adds exchanges from a correlation id on, and returns how many; is called `count`
    times."""
    connection, number = CapturedConnection().open(), 0
    for _ in range(count):
        number += add(connection, number)
    return build_pcap(connection.close().packets)


def check_level(capture: bytes, level: str = "partitions", options: Options | None = None) -> list[Row]:
    """Both readers have the same rows. Returns: these rows."""
    return assert_rows_of_pipeline(capture, level, options or Options())


def decoded_one_by_one(capture: bytes, level: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many exchanges of a capture are not decoded together with others."""
    count = 0

    def counted_bodies(self: BodySource, exchanges, rows, needs_request):  # type: ignore[no-untyped-def]
        nonlocal count
        count += len(rows)
        return bodies(self, exchanges, rows, needs_request)

    bodies = BodySource.bodies
    monkeypatch.setattr(BodySource, "bodies", counted_bodies)
    reader = ColumnarReader(index.build_index(capture), None, options_for_level(Options(), level))
    batch_rows(LevelReader(reader, level, [c.name for c in level_columns(level)]).read_batches())
    return count


@cache
def damaged_copies(data: bytes, seed: int) -> list[bytes]:
    """Copies of a body with a byte changed, removed or added."""
    chance = random.Random(seed)
    out = []
    for _ in range(3):
        changed = bytearray(data)
        if changed:
            changed[chance.randrange(len(changed))] = chance.choice((0, 1, 2, 127, 128, 255))
        out.append(bytes(changed))
    return [*out, data[:-1], data + b"\0"]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("part", range(4))
def test_every_message_whole_and_damaged(level: str, part: int) -> None:
    vectors = vectors_by_message(DEFAULT_EDITION)
    chosen_keys = api_keys_of_level(level, DEFAULT_EDITION) or frozenset(registry.API_KEYS)
    connection, number = CapturedConnection().open(), 0
    for api_key in sorted(chosen_keys)[part::4]:
        name, (low, high) = registry.api_name(api_key), registry.api_versions(api_key)
        if name in {"SaslHandshake", "ApiVersions"}:
            continue
        for version in range(low, high + 1):
            pairs = zip(vectors[f"{name}Request", version], vectors[f"{name}Response", version], strict=True)
            for seed, (request, response) in enumerate(pairs):
                damaged = zip(damaged_copies(request.raw, seed), damaged_copies(response.raw, seed), strict=True)
                copies = [(request.raw, response.raw)] * TOGETHER
                copies += [pair for one, other in damaged for pair in ((one, response.raw), (request.raw, other))]
                is_silent = request.message == "ProduceRequest" and request.json["acks"] == 0
                for asked, answered in copies:
                    add_exchange(connection, (name, version), number, asked, None if is_silent else answered)
                    number += 1

    check_level(build_pcap(connection.close().packets), level)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("noise", [0, 0.05, 0.6])
@pytest.mark.parametrize("name", ["small_aio", "small_share", "small_txn"])
def test_many_similar_exchanges(level: str, name: str, noise: float) -> None:
    (path,) = (path for path in FILES if path.stem == name)

    check_level(copy_connections(path, 13, noise=noise), level)


def several_records(*values: bytes | None, codec: str = "none", producer: tuple[int, int, int] = (-1, -1, -1)) -> bytes:
    """A batch of these values; every other record has a key."""
    producer_id, epoch, sequence = producer
    keys = [b"key" if number % 2 else None for number in range(len(values))]
    records = [Record(offset, 1_700_000_000_000, *pair) for offset, pair in enumerate(zip(keys, values, strict=True))]
    return write_batch(records, codec=codec, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


ONE_RECORD = several_records(b"v")
BATCHES = {
    "one record": ONE_RECORD,
    "several records": several_records(b"v", None, b"", b"w" * 300),
    "several batches": several_records(b"v", b"w") + several_records(b"x", b"y", b"z"),
    "several codecs": b"".join(several_records(b"v", b"w", codec=codec) for codec in ("none", "gzip", "none")),
    "every codec": b"".join(several_records(b"v" * 90, codec=codec) for codec in ("lz4", "gzip", "zstd", "snappy")),
    "an unknown codec": b"".join((ONE_RECORD[:22], b"\x05", ONE_RECORD[23:])),
    "broken lz4": several_records(b"v" * 90) + several_records(b"v" * 90, codec="lz4")[:-9] + bytes(9),
    "compressed headers": write_batch([Record(headers=(("a", b"1"),) * n, offset=n) for n in range(4)], codec="zstd"),
    "a compressed dead letter": write_batch([Record(headers=(("__dlq.errors.group", b"g"),))], codec="gzip"),
    "an empty batch of another codec": b"".join(
        (ONE_RECORD[:22], b"\x03", ONE_RECORD[23:57], bytes(4), ONE_RECORD[61:])
    ),
    "a producer": several_records(b"v", producer=(7, 3, 5)),
    "two, the last one cut off": ONE_RECORD + ONE_RECORD[:-1],
    "an offset": write_batch([Record(offset=2**40, value=b"v")]),
    "an offset near the limit": write_batch([Record(offset=2**62, value=b"v")]),
    "times of a wide range": write_batch([Record(0, 0), Record(1, 2**40), Record(2, 2**21)]),
    "a negative time": write_batch([Record(0, -1)]),
    "the broker's time": with_append_time(several_records(b"v", b"w"), 1_700_000_000_123),
    "headers": write_batch([Record(value=b"v", headers=(("a", b"1"), ("b", None)))]),
    "many headers": write_batch([Record(n, 5, headers=(("a", b"1"), ("", None)) * (n % 3)) for n in range(9)]),
    "a header whose name is not ASCII": write_batch([Record(0, 5, headers=(("größe", b"1"),)), Record(1, 5)]),
    "a dead letter": write_batch([Record(value=b"v", headers=(("__dlq.errors.group", b"g"),))]),
    "cut off in its header": ONE_RECORD + bytes(16),
    "of an unknown magic": ONE_RECORD + bytes(16) + b"\x09" + bytes(60),
    "negative count": b"".join((ONE_RECORD[:57], b"\xff" * 4, ONE_RECORD[61:])),
    "more records than bytes": b"".join((ONE_RECORD[:57], b"\x7f\xff\xff\xff", ONE_RECORD[61:])),
    "fewer records than bytes": b"".join((ONE_RECORD[:57], bytes(4), ONE_RECORD[61:])),
    "a record of another size": b"".join((ONE_RECORD[:61], b"\x20", ONE_RECORD[62:])),
    "empty": b"",
}


def add_batches(records: bytes) -> Callable[[CapturedConnection, int], int]:
    """Adds a Produce whose response has another order of partitions, and a Fetch."""

    def add(connection: CapturedConnection, number: int) -> int:
        asked = TopicProduceData("t", partition_data=[PartitionProduceData(n, records) for n in (1, 3, 4)])
        asked.partition_data.append(PartitionProduceData(0, None))
        answered = [PartitionProduceResponse(n, 0, base) for n, base in ((0, 40), (4, 2**62), (1, -1), (2, 5), (3, 50))]
        request = ProduceRequest(acks=1, topic_data=[asked])
        response = ProduceResponse(responses=[TopicProduceResponse("t", partition_responses=answered)])
        add_exchange(connection, PRODUCE, number, request, response)
        partitions = [FetchedPartition(3, records=records), FetchedPartition(4, records=None)]
        fetched = FetchResponse(responses=[FetchableTopicResponse(topic_id=ONE, partitions=partitions)])
        add_exchange(connection, FETCH, number + 1, FetchRequest(), fetched)
        return 2

    return add


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("count", [1, TOGETHER])
def test_record_batches(name: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    capture = level_capture(add_batches(BATCHES[name]), count)

    assert len(check_level(capture)) == 7 * count
    check_level(capture, "records", Options(payload=True))
    for level in ("partitions", "records"):
        assert decoded_one_by_one(capture, level, monkeypatch) == (0 if count == TOGETHER else 2)


def test_records_of_requests_without_a_response_have_no_offset() -> None:
    def add(connection: CapturedConnection, number: int) -> int:
        topic = TopicProduceData("t", partition_data=[PartitionProduceData(1, BATCHES["several batches"])])
        add_exchange(connection, PRODUCE, number, ProduceRequest(acks=0, topic_data=[topic]), None)
        return 1

    rows = check_level(level_capture(add), "records")
    assert [row["offset"] for row in rows] == [None] * 5 * TOGETHER


def test_a_produce_request_without_acks_has_rows() -> None:
    def add(connection: CapturedConnection, number: int) -> int:
        topic = TopicProduceData("t", partition_data=[PartitionProduceData(1, ONE_RECORD)])
        add_exchange(connection, PRODUCE, number, ProduceRequest(acks=0, topic_data=[topic]), None)
        return 1

    def add_nothing(connection: CapturedConnection, number: int) -> int:
        add_exchange(connection, PRODUCE, number, ProduceRequest(acks=0), None)
        return 1

    rows = check_level(level_capture(add))
    assert [(row["error_code"], row["records"]) for row in rows] == [(None, 1)] * TOGETHER
    assert check_level(level_capture(add_nothing)) == check_level(level_capture(add_nothing), "records") == []


def test_a_partition_that_a_message_names_twice_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def add(connection: CapturedConnection, number: int) -> int:
        partitions = [PartitionProduceResponse(1, 0, 40), PartitionProduceResponse(1, 3, 41)]
        response = ProduceResponse(responses=[TopicProduceResponse("t", partition_responses=partitions)])
        add_exchange(connection, PRODUCE, number, ProduceRequest(acks=1), response)
        return 1

    capture = level_capture(add)
    rows = check_level(capture)
    assert [(row["error_code"], row["base_offset"]) for row in rows] == [(3, 41)] * TOGETHER
    assert decoded_one_by_one(capture, "partitions", monkeypatch) == TOGETHER


def add_share_exchanges(connection: CapturedConnection, number: int) -> int:
    """A ShareFetch and a ShareAcknowledge, whose responses have another order of partitions, and one unanswered."""
    ranges = (5, 9, (1, 1, 2, 3, 3)), (20, 29, (1,)), (30, 0, ())
    batches = [AcknowledgementBatch(*each) for each in ranges]
    partitions = [FetchPartition(4, acknowledgement_batches=batches), FetchPartition(3), FetchPartition(1)]
    partitions[2].acknowledgement_batches = [AcknowledgementBatch(2**63 - 1, 2**63 - 1, (9,))]
    topics = [FetchTopic(OTHER, [FetchPartition(0)]), FetchTopic(ONE, partitions)]
    acquired = [AcquiredRecords(0, 3, 1), AcquiredRecords(7, 9, 2)]
    answered = [
        SharedPartition(3, acquired_records=acquired, acknowledge_error_code=3),
        SharedPartition(4, error_code=6),
        SharedPartition(9, acquired_records=acquired[1:]),
    ]
    fetched = [ShareFetchableTopicResponse(ONE, answered), ShareFetchableTopicResponse(OTHER, answered[:1])]
    response = ShareFetchResponse(acquisition_lock_timeout_ms=30_000, responses=fetched)
    add_exchange(connection, SHARE_FETCH, number, ShareFetchRequest("g", "m", 1, topics=topics), response)
    settling = [SettledBatch(*each) for each in ranges]
    acks = AcknowledgeTopic(ONE, [AcknowledgePartition(1, settling[:1]), AcknowledgePartition(2, settling[1:])])
    settled = [ShareAcknowledgeTopicResponse(ONE, [AcknowledgedPartition(2, 121)])]
    request = ShareAcknowledgeRequest("g", "", 2, topics=[acks])
    answer = ShareAcknowledgeResponse(error_code=122, responses=settled)
    add_exchange(connection, SHARE_ACKNOWLEDGE, number + 1, request, answer)
    add_exchange(connection, SHARE_ACKNOWLEDGE, number + 2, request, None)
    return 3


@pytest.mark.parametrize("count", [1, TOGETHER])
def test_share_consumers(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    capture = level_capture(add_share_exchanges, count)

    acks = check_level(capture, "share_acks")
    codes = [(row["ack_type"], row["error_code"]) for row in acks if row["api_name"] == "ShareAcknowledge"]
    assert codes[:4] == [(1, 121), (1, 122), (2, 122), (3, 122)]
    assert codes[-4:] == [(1, None), (2, None), (3, None), (1, None)]
    assert len(check_level(capture, "share_acquired")) == 5 * count
    for level, left in (("share_acquired", 0), ("share_acks", 0), ("partitions", TOGETHER)):
        assert decoded_one_by_one(capture, level, monkeypatch) == left or count == 1


def add_fetch(connection: CapturedConnection, number: int, *topic_ids: bytes) -> int:
    topics = [FetchableTopicResponse(topic_id=each, partitions=[FetchedPartition(3)]) for each in topic_ids]
    add_exchange(connection, FETCH, number, FetchRequest(), FetchResponse(responses=topics))
    return 1


def add_names(connection: CapturedConnection, number: int, **ids: bytes) -> int:
    topics = [MetadataResponseTopic(name=name, topic_id=topic_id) for name, topic_id in ids.items()]
    add_exchange(connection, METADATA, number, MetadataRequest(), MetadataResponse(topics=topics))
    return 1


@pytest.mark.parametrize("span_size", [scanner.SPAN_SIZE, 16_384])
def test_rows_have_the_topic_names_of_their_time(span_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanner, "SPAN_SIZE", span_size)
    connection, number = CapturedConnection().open(), 0
    for name in ("first", "second", "third"):
        for _ in range(150):
            number += add_fetch(connection, number, ONE, OTHER)
        number += add_names(connection, number, **{name: ONE, "other": OTHER})

    rows = check_level(build_pcap(connection.close().packets))
    topics = [(row["topic"], row["topic_id"]) for row in rows if row["topic_id"] == rows[0]["topic_id"]]
    assert [name for name, _ in topics] == [None] * 150 + ["first"] * 150 + ["second"] * 150


def mixed_connections() -> tuple[list[CapturedPacket], list[CapturedPacket]]:
    """Two connections, one before another that is not Kafka; each names a topic of the other between its fetches."""
    talks = []
    for port, topic_id, other in ((40_000, ONE, OTHER), (40_001, OTHER, ONE)):
        talk, number = CapturedConnection(("127.0.0.1", port)).open(), 0
        for _ in range(3):
            for _ in range(40):
                number += add_fetch(talk, number, topic_id)
            number += add_names(talk, number, **{f"name{port}-{number}": other})
        talks.append(talk.close().packets)
    first, second = talks
    return first, [*second, *connection_without_kafka(40_001, start=second[-1].ts)]


def test_connections_share_names() -> None:
    first, second = mixed_connections()
    shifted = [packet._replace(ts=packet.ts + 500_000) for packet in second]
    capture = build_pcap(sorted(first + shifted, key=lambda packet: packet.ts))
    assert count_flows(capture) == 3

    rows = check_level(capture)
    names = {f"name{port}-{number}" for port in (40_000, 40_001) for number in (40, 81)}
    assert {row["topic"] for row in rows} == {None, *names}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("change", ["swaps", "lateness", "small segments", "midstream", "snaplen"])
def test_impaired_captures(level: str, change: str) -> None:
    (path,) = (path for path in FILES if path.stem == "small_share")
    packets = IMPAIRED[change](read_ip_packets(path))

    check_level(build_pcap(packets), level)


OPTIONS = {
    "name": Options(name="somewhere"),
    "ports": Options(ports=frozenset({9092})),
    "apis": Options(apis=frozenset({"ShareFetch", "Fetch"})),
    "topics": Options(topics={"AQEBAQEBAQEBAQEBAQEBAQ": "mine"}),
    "early access": Options(edition="4.0-early-access"),
    "condition": Options(exchange_filter=ExchangeFilter((ExchangeCondition("api_name", "starts", "S"),))),
    "decoded messages": Options(decoded_messages=frozenset({"ProduceRequest", "MetadataResponse"})),
    "payload": Options(payload=True),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", OPTIONS)
def test_options_mean_the_same(level: str, name: str) -> None:
    for path in FILES[:5]:
        check_level(path.read_bytes(), level, OPTIONS[name])


@pytest.mark.parametrize("level", LEVELS)
def test_each_column_can_be_read_alone(level: str) -> None:
    def add(connection: CapturedConnection, number: int) -> int:
        count = add_share_exchanges(connection, number)
        return count + add_batches(BATCHES["several batches"])(connection, number + count)

    found_index = index.build_index(level_capture(add))
    expected = pa.Table.from_batches(read_flow_batches([found_index], None, level))

    for column in expected.column_names:
        found = pa.Table.from_batches(read_flow_batches([found_index], None, level, columns=[column]))
        assert found.equals(expected.select([column]))


@pytest.mark.parametrize("level", LEVELS)
def test_most_exchanges_are_decoded_together(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = (path for path in FILES if path.stem == "small_share")

    assert decoded_one_by_one(copy_connections(path, 13), level, monkeypatch) < 50
