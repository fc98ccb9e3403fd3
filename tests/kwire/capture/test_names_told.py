"""The names of topics by the index: those that decoding everything finds."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from kwire.capture import arrow, index
from kwire.capture.lane.names import names_told
from kwire.capture.late_names import filled
from kwire.capture.options import Options
from kwire.capture.topic_map import names_decoded, names_in
from kwire.headers import encode_request, encode_response
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from kwire.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest, ShareFetchResponse
from kwire.uuids import to_text
from tests.kwire.capture.counted import responses_decoded
from tests.kwire.capture.wire import Talk, pcap

ID = b"\1" * 16
CAPTURES = Path(__file__).parents[2] / "captures"
FILES = sorted(CAPTURES.glob("*.pcap*"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_index_finds_the_names_that_decoding_everything_finds(file: Path) -> None:
    assert names_told(index.of(file), Options()) == names_decoded(file, Options())


def test_names_that_are_known_beforehand_stay() -> None:
    known = {"A" * 22: "mine"}

    told = names_told(index.of(CAPTURES / "small_share.pcap"), Options(topics=known))

    assert told.items() > known.items()


def late_name(others: int) -> bytes:
    """A capture that names a topic behind the rows that need it, and behind as many others that do not."""
    fetch = ShareFetchRequest("g", "m", 0, topics=[FetchTopic(ID, [FetchPartition(3)])])
    named = MetadataResponse(topics=[MetadataResponseTopic(name="mine", topic_id=ID)])
    talk = Talk().open().asks(encode_request(fetch, 2, 0, "me")).answers(encode_response(ShareFetchResponse(), 2, 0))
    for number in range(1, others + 1):
        talk.asks(encode_request(HeartbeatRequest(), 0, number, "me"))
        talk.answers(encode_response(HeartbeatResponse(), 0, number))
    talk.asks(encode_request(MetadataRequest(), 12, others + 1, "me"))
    return pcap(talk.answers(encode_response(named, 12, others + 1)).close().wires)


def test_names_that_a_table_lacks_are_looked_for_in_messages_that_name_topics_alone() -> None:
    capture = late_name(30)
    (batch,) = arrow.batches(capture, "messages", columns=["session_partitions"])
    table = pa.Table.from_batches([batch])
    with responses_decoded() as decoded:
        whole = filled(table, [capture], Options())

    assert whole["session_partitions"].to_pylist()[0] == '{"mine":[3]}'
    assert decoded == ["Metadata"]


def test_names_of_several_captures_are_put_together_and_an_index_is_kept_where_that_is_asked_for(
    tmp_path: Path,
) -> None:
    one, packed = tmp_path / "one.pcap", tmp_path / "packed.pcap.gz"
    one.write_bytes(late_name(0))
    packed.write_bytes(gzip.compress((CAPTURES / "small_share.pcap").read_bytes()))
    known = {"A" * 22: "other"}

    told = names_in([one, packed], Options(topics=known), cache=str(tmp_path / "kept"))
    assert told == {**known, to_text(ID): "mine", "fvtbe02hTLyuZUWVZ10nEw": "t-share"}
    assert len(list((tmp_path / "kept").iterdir())) == 1
