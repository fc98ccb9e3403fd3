"""Lines of lossy flows are those of their exchanges, with the sessions of all flows."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from kwire.capture import progressive_reader
from kwire.capture.columnar.filtered import filtered_lines
from kwire.capture.kafka.exchange import Exchange
from kwire.capture.kafka.topic_names import TopicNames
from kwire.capture.model import Row, StreamGap
from kwire.capture.options import Options
from kwire.capture.progressive_reader import Replayed
from kwire.capture.reader import read_events
from kwire.capture.rows.columns import level_columns
from kwire.capture.rows.json_lines import format_json_line
from kwire.capture.rows.message_rows import MessageRowBuilder
from kwire.capture.rows.reorder_buffer import LineFormat, PrebuiltLines
from kwire.headers import encode_request, encode_response
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kwire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kwire.records import Record, write_batch
from tests.support.capture_model.pipeline import read_rows
from tests.support.captures.capture_files import CapturedConnection, CapturedPacket, build_pcap

NAMES = [column.name for column in level_columns("messages")]
BATCH = write_batch([Record(value=b"v")])
SESSION = 77


def fetch(number: int, epoch: int) -> tuple[bytes, bytes]:
    """A fetch of a session that adds a partition, or begins it."""
    topics = [FetchTopic("t", partitions=[FetchPartition(number % 5, fetch_offset=1, partition_max_bytes=9)])]
    request = FetchRequest(session_id=SESSION if epoch else 0, session_epoch=epoch, topics=topics)
    return encode_request(request, 11, number, "c"), encode_response(FetchResponse(session_id=SESSION), 11, number)


def produce(number: int) -> tuple[bytes, bytes]:
    """A Produce request and its response."""
    request = ProduceRequest(
        acks=1, topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(1, BATCH)])]
    )
    return encode_request(request, 8, number, "p"), encode_response(ProduceResponse(), 8, number)


def lossy_packets(seed: int) -> list[CapturedPacket]:
    """Two connections that use one fetch session alternately; the first one, or both, lost some packets."""
    chance = random.Random(seed)
    talks = [CapturedConnection(("127.0.0.1", 40_000 + index), start=10**18 + index).open() for index in range(2)]
    epoch = 0
    for number in range(400):
        talk = talks[chance.random() < 0.4]
        if chance.random() < 0.5:
            # A session is used until a packet is lost, so there is a new one now and then.
            epoch = 0 if number % 30 == 0 else epoch
            exchange, epoch = fetch(number, epoch), epoch + 1
        else:
            exchange = produce(number)
        # Both have one clock.
        talk._ts = max(each._ts for each in talks)
        request, response = exchange
        talk.exchange(request, response[:-1] if chance.random() < 0.01 else response)
    lossy = [talks[0], talks[1]] if seed % 2 else [talks[0]]
    for talk in lossy:
        handshake, rest = talk.packets[:3], talk.packets[3:]
        talk.packets = [*handshake, *(each for each in rest if chance.random() > 0.02)]
    return sorted((each for talk in talks for each in talk.packets), key=lambda each: each.ts)


@pytest.mark.parametrize("count_max", [8192, 40])
@pytest.mark.parametrize("seed", range(6))
def test_lines_are_those_of_the_streaming_pipeline(
    seed: int, count_max: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progressive_reader, "FIRST_PACKETS", 20)
    monkeypatch.setattr(filtered_lines, "_COUNT_MAX", count_max)
    path = tmp_path / "lossy.pcap"
    path.write_bytes(build_pcap(lossy_packets(seed)))
    options = Options(bodies=True, name=str(path))
    builder = MessageRowBuilder(str(path), options, TopicNames({}))
    form, line_count, found = LineFormat(NAMES), 0, list[str]()
    events = read_events(str(path), options, "messages", path=str(path), columns=NAMES, line_format=lambda: form)
    for event in events:
        if isinstance(event, PrebuiltLines):
            line_count += len(event.lines)
            found += map(str, event.lines)
        elif isinstance(event, Exchange | StreamGap):
            found += [format_json_line(row, "messages") for row in builder.build_rows(event)]
        else:
            assert isinstance(event, progressive_reader.IndexingStarted | progressive_reader.Restarted | Replayed)
    expected = [format_json_line(row, "messages") for row in read_rows(str(path), "messages", options)]

    assert sorted(found) == sorted(expected)
    assert line_count > 300
    assert sum(sessions_of(line) is not None for line in found) > 5


def sessions_of(line: str) -> object:
    row: Row = json.loads(line)
    return row["session_partitions"]
