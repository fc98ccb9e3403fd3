"""Session tracker: the partitions of incremental requests of fetch sessions and share sessions."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import pytest

from kwire import read_capture
from kwire.capture.kafka import session_tracker
from kwire.capture.model import Row
from kwire.capture.reader import read_rows
from kwire.cli.main import main
from kwire.error_codes import ErrorCode
from kwire.headers import encode_request, encode_response
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from kwire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from kwire.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from kwire.messages.share_acknowledge import ShareAcknowledgeResponse as Acknowledged
from kwire.messages.share_fetch import FetchPartition as SharePartition
from kwire.messages.share_fetch import FetchTopic as ShareTopic
from kwire.messages.share_fetch import ForgottenTopic as ShareForgotten
from kwire.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from kwire.uuids import to_text
from tests.support.captures.capture_files import (
    CAPTURES,
    CapturedConnection,
    CapturedPacket,
    build_pcap,
    read_capture_rows,
    read_ip_packets,
)

A, B = b"\1" * 16, b"\2" * 16
GONE, WRONG_EPOCH = ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH
VERSIONS = {FetchRequest: 12, ShareFetchRequest: 2, ShareAcknowledgeRequest: 2, MetadataRequest: 12}
Pair = tuple[msgspec.Struct, msgspec.Struct | None]


def fetch(
    session_id: int, epoch: int, added: dict[str, Iterable[int]] | None = None, *, forget: tuple[str, int] | None = None
) -> FetchRequest:
    parts = {name: [FetchPartition(index) for index in indexes] for name, indexes in (added or {}).items()}
    topics = [FetchTopic(name, partitions=partitions) for name, partitions in parts.items()]
    forgotten = [] if forget is None else [ForgottenTopic(forget[0], partitions=(forget[1],))]
    return FetchRequest(session_id=session_id, session_epoch=epoch, topics=topics, forgotten_topics_data=forgotten)


def fetch_response(session_id: int, error: ErrorCode = ErrorCode.NONE) -> FetchResponse:
    return FetchResponse(error_code=error, session_id=session_id)


def share(
    epoch: int, *added: tuple[bytes, int], forget: tuple[bytes, int] | None = None, member: str = "m"
) -> ShareFetchRequest:
    topics = [ShareTopic(topic_id, [SharePartition(number)]) for topic_id, number in added]
    forgotten = [] if forget is None else [ShareForgotten(forget[0], (forget[1],))]
    return ShareFetchRequest("g", member, epoch, topics=topics, forgotten_topics_data=forgotten)


def acknowledge(epoch: int) -> ShareAcknowledgeRequest:
    return ShareAcknowledgeRequest("g", "m", epoch, topics=[AcknowledgeTopic(B, [AcknowledgePartition(7, [])])])


def captured_connection(
    pairs: Sequence[Pair], version: int | None = None, connection: CapturedConnection | None = None
) -> CapturedConnection:
    connection = connection or CapturedConnection().open()
    for number, (request, response) in enumerate(pairs):
        request_version = version or VERSIONS[type(request)]
        connection.send_requests(encode_request(request, request_version, number, "me"))
        if response is not None:
            connection.send_responses(encode_response(response, request_version, number))
    return connection


def session_columns(pairs: Sequence[Pair], version: int | None = None) -> list[tuple[object, ...]]:
    return columns(captured_connection(pairs, version).read_rows())


def columns(found: Iterable[Row]) -> list[tuple[object, ...]]:
    return [(row["session_id"], row["session_epoch"], row["session_partitions"]) for row in found]


def test_an_incremental_fetch_has_all_partitions_of_its_session() -> None:
    pairs = [
        (fetch(0, 0, {"t": [1, 0], "u": [3]}), fetch_response(5)),
        (fetch(5, 1), fetch_response(5)),
        (fetch(5, 2, {"t": [0, 4]}), fetch_response(5)),
        (fetch(5, 3, {"v": [0]}, forget=("u", 3)), fetch_response(5)),
        (fetch(5, -1), fetch_response(0)),
        (fetch(0, -1, {"t": [0]}), fetch_response(0)),
    ]

    assert session_columns(pairs) == [
        (5, 0, '{"t":[0,1],"u":[3]}'),
        (5, 1, '{"t":[0,1],"u":[3]}'),
        (5, 2, '{"t":[0,1,4],"u":[3]}'),
        (5, 3, '{"t":[0,1,4],"v":[0]}'),
        (5, -1, None),
        (None, -1, None),
    ]


def test_a_fetch_version_without_sessions_has_no_session() -> None:
    old = FetchRequest(topics=[FetchTopic("t", partitions=[FetchPartition(0)])])

    assert session_columns([(old, FetchResponse())], version=6) == [(None, None, None)]


def test_a_session_that_the_broker_does_not_open_has_no_id() -> None:
    pairs = [(fetch(0, 0, {"t": [1]}), fetch_response(0, error)) for error in (ErrorCode.NONE, GONE)]

    assert session_columns(pairs) == [(None, 0, None)] * 2


def test_the_partitions_of_a_session_from_before_the_capture_are_unknown() -> None:
    pairs = [(fetch(5, 8, {"t": [1]}), fetch_response(5)), (fetch(5, 9), fetch_response(5))]

    assert session_columns(pairs) == [(5, 8, None), (5, 9, None)]


def test_after_a_missed_request_the_session_is_unknown_until_it_is_opened_again() -> None:
    pairs = [
        (fetch(0, 0, {"t": [1]}), fetch_response(5)),
        (fetch(5, 2, {"u": [1]}), fetch_response(5)),
        (fetch(5, 3), fetch_response(5)),
        (fetch(5, 0, {"t": [2]}), fetch_response(6)),
        (fetch(6, 1), fetch_response(6)),
    ]

    assert [each[2] for each in session_columns(pairs)] == ['{"t":[1]}', None, None, '{"t":[2]}', '{"t":[2]}']


def test_a_rejected_request_changes_nothing_and_session_not_found_closes_the_session() -> None:
    pairs = [
        (fetch(0, 0, {"t": [1]}), fetch_response(5)),
        (fetch(5, 7, {"u": [1]}), fetch_response(5, WRONG_EPOCH)),
        (fetch(5, 1), fetch_response(5)),
        (fetch(5, 2, {"u": [1]}), fetch_response(0, GONE)),
        (fetch(5, 3), fetch_response(5)),
    ]

    assert [each[2] for each in session_columns(pairs)] == ['{"t":[1]}', '{"t":[1]}', '{"t":[1]}', None, None]


def test_a_request_without_a_response_changes_the_session() -> None:
    pairs: list[Pair] = [(fetch(0, 0, {"t": [1]}), fetch_response(5)), (fetch(5, 1, {"t": [2]}), None)]

    assert session_columns(pairs)[1] == (5, 1, '{"t":[1,2]}')


@pytest.mark.parametrize("end", [0x11, 0x14], ids=["fin", "rst"])
def test_a_poll_without_a_response_does_not_change_the_next_session(end: int) -> None:
    response = ShareFetchResponse()
    before = captured_connection([(share(0, (A, 0)), response), (share(1), response), (share(2), None)])
    if end == 0x11:
        before.close()
    else:
        before.packets.append(reset(before.packets[-1]))
    start = before.packets[-1].ts
    after = CapturedConnection(("127.0.0.1", 40_001), start=start).open()
    pairs = [(share(epoch, *[(A, 1)][: 1 - epoch]), response) for epoch in range(8)]
    captured_connection(pairs, connection=after)
    # The poll becomes an outcome some seconds after the end of its connection, when no packet can follow.
    late = [each._replace(ts=each.ts + 9_000_000_000) for each in after.packets[-6:]]
    captured_packets = [*before.packets, *after.packets[:-6], *late]

    topic = to_text(A)
    expected = [(None, epoch, f'{{"{topic}":[0]}}') for epoch in range(3)]
    expected += [(None, epoch, f'{{"{topic}":[1]}}') for epoch in range(8)]
    assert columns(read_capture_rows(build_pcap(captured_packets))) == expected
    assert columns(read_capture(build_pcap(captured_packets)).to_pylist()) == expected


def reset(captured_packet: CapturedPacket) -> CapturedPacket:
    """A reset by the sender of this packet, after it."""
    packet = captured_packet.data
    payload_size = struct.unpack_from(">H", packet, 2)[0] - 40
    seq = struct.unpack_from(">I", packet, 24)[0] + payload_size
    head = packet[:2] + struct.pack(">H", 40) + packet[4:24] + struct.pack(">I", seq) + packet[28:33] + b"\x14"
    return CapturedPacket(captured_packet.ts + 1000, head + packet[34:40])


def test_after_the_largest_epoch_comes_1() -> None:
    followed = [(fetch(0, 0, {"t": [1]}), fetch_response(5)), (fetch(5, 1), fetch_response(5))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_tracker, "_EPOCH_MAX", 1)
        assert session_columns([*followed, (fetch(5, 1), fetch_response(5))])[2] == (5, 1, '{"t":[1]}')


def test_each_broker_and_each_member_has_its_own_session() -> None:
    opened = captured_connection([(fetch(0, 0, {"t": [1]}), fetch_response(5))])
    next_pair = (fetch(5, 1), fetch_response(5))
    other = captured_connection([next_pair], connection=CapturedConnection(broker=("127.0.0.1", 9093)).open())
    # Another connection of the client goes on with its session.
    again = captured_connection([next_pair], connection=CapturedConnection(("127.0.0.1", 40_001)).open())
    members = [(share(0, (A, 0)), ShareFetchResponse()), (share(1, member="n"), ShareFetchResponse())]

    found = columns(read_capture_rows(build_pcap(opened.packets + other.packets + again.packets)))
    assert sorted(found, key=str) == [(5, 0, '{"t":[1]}'), (5, 1, '{"t":[1]}'), (5, 1, None)]
    assert [each[2] is None for each in session_columns(members)] == [False, True]


def test_share_sessions_are_tracked_through_fetches_and_acknowledgements() -> None:
    a, b = to_text(A), to_text(B)
    pairs = [
        (share(0, (A, 0), (B, 1)), ShareFetchResponse()),
        (acknowledge(1), Acknowledged()),
        (share(2, (A, 2), (B, 5), forget=(B, 1)), ShareFetchResponse()),
        (share(3, (B, 9)), ShareFetchResponse(error_code=ErrorCode.INVALID_SHARE_SESSION_EPOCH)),
        (share(3), ShareFetchResponse()),
        (acknowledge(-1), Acknowledged()),
        (share(4), ShareFetchResponse(error_code=ErrorCode.SHARE_SESSION_NOT_FOUND)),
    ]

    last = f'{{"{a}":[0,2],"{b}":[5]}}'
    assert session_columns(pairs) == [
        (None, 0, f'{{"{a}":[0],"{b}":[1]}}'),
        (None, 1, f'{{"{a}":[0],"{b}":[1]}}'),
        (None, 2, last),
        (None, 3, last),
        (None, 3, last),
        (None, -1, None),
        (None, 4, None),
    ]


def test_partitions_are_listed_by_topic_names_also_if_the_names_come_later() -> None:
    naming_response = MetadataResponse(topics=[MetadataResponseTopic(name="t", topic_id=A)])
    opened_again = MetadataResponse(topics=[MetadataResponseTopic(name="t", topic_id=B)])
    pairs = [
        (share(0, (A, 0), (B, 1)), ShareFetchResponse()),
        (MetadataRequest(), naming_response),
        (share(1), ShareFetchResponse()),
        (MetadataRequest(), opened_again),
        (share(2), ShareFetchResponse()),
    ]

    found = [each[2] for each in session_columns(pairs) if each[1] is not None]
    assert found == [
        f'{{"{to_text(A)}":[0],"{to_text(B)}":[1]}}',
        f'{{"t":[0],"{to_text(B)}":[1]}}',
        # A topic that was created again has the name of the previous one.
        f'{{"t":[0],"{to_text(B)}":[1]}}',
    ]


def test_sessions_are_limited_in_number_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = [(fetch(0, 0, {"t": [1, 2]}), fetch_response(number)) for number in (1, 2, 3)]
    used = [(fetch(number, 1), fetch_response(number)) for number in (1, 2, 3)]

    monkeypatch.setattr(session_tracker, "SESSIONS_MAX", 2)
    assert [each[2] is None for each in session_columns([*opened, *used])[3:]] == [True, False, False]
    monkeypatch.setattr(session_tracker, "SESSIONS_MAX", 9)
    monkeypatch.setattr(session_tracker, "PARTITIONS_MAX", 2)
    assert [each[2] is None for each in session_columns([*opened, *used])[3:]] == [True, True, False]


def test_a_session_with_too_many_partitions_is_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_tracker, "SESSION_PARTITIONS_MAX", 2)
    large_session = [
        (fetch(0, 0, {"t": [1, 2]}), fetch_response(5)),
        (fetch(5, 1, {"u": [1]}), fetch_response(5)),
        (fetch(5, 2), fetch_response(5)),
    ]
    opened = [(fetch(0, 0, {"t": [1, 2, 3]}), fetch_response(6)), (fetch(6, 1, forget=("t", 3)), fetch_response(6))]
    opened_again = [(fetch(6, 0, {"t": [1]}), fetch_response(7)), (fetch(7, 1), fetch_response(7))]

    assert session_columns([*large_session, *opened, *opened_again]) == [
        (5, 0, '{"t":[1,2]}'),
        (5, 1, None),
        (5, 2, None),
        (6, 0, None),
        (6, 1, None),
        (7, 0, '{"t":[1]}'),
        (7, 1, '{"t":[1]}'),
    ]


def test_all_sessions_of_real_consumers_and_share_consumers_have_their_partitions() -> None:
    fetches = [row for row in read_rows(CAPTURES / "small_kpy.pcap") if row["api_name"] == "Fetch"]
    shares = [row for row in read_rows(CAPTURES / "small_jshare.pcap") if str(row["api_name"]).startswith("Share")]

    assert columns(fetches) == [(94820119, epoch, '{"t-kpy":[0]}') for epoch in range(7)]
    sessions_of = [row for row in shares if row["session_epoch"] is not None]
    assert [row["session_epoch"] for row in sessions_of] == [*range(8), -1, *range(8)]
    assert {row["session_partitions"] for row in sessions_of} == {'{"t-share2":[0]}', None}
    # Without their beginning nothing is known of them.
    late = read_capture_rows(build_pcap(read_ip_packets(CAPTURES / "small_kpy.pcap")[94:]))
    assert {row["session_partitions"] for row in late if row["api_name"] == "Fetch"} == {None}


def test_table_and_tree_show_the_partitions_of_an_incremental_request(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(CAPTURES / "small_kpy.pcap")

    assert main(["decode", path, "--api", "Fetch"]) == 0
    assert capsys.readouterr().out.count("session 94820119 epoch 3  of all t-kpy[0]") == 1
    assert main(["decode", path, "--api", "Fetch", "--format", "tree"]) == 0
    assert "  of all t-kpy[0]\n" in capsys.readouterr().out


def test_the_table_shows_that_a_session_is_unknown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "late.pcap"
    pairs = [(fetch(5, 8), fetch_response(5)), (fetch(5, 9), fetch_response(0, GONE))]
    path.write_bytes(build_pcap(captured_connection(pairs).packets))

    assert main(["decode", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert ["not captured from its beginning" in line for line in lines] == [True, False]
