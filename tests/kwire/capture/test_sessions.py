"""Fetch sessions and share sessions: an incremental request shows what it stands for."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

import msgspec
import pytest

from kwire import read_capture
from kwire.capture import sessions
from kwire.capture.pipeline import rows
from kwire.capture.rows import Row
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
from tests.kwire.capture.wire import CAPTURES, Talk, Wire, ip_packets, pcap, read

A, B = b"\1" * 16, b"\2" * 16
GONE, WRONG_EPOCH = ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH
VERSIONS = {FetchRequest: 12, ShareFetchRequest: 2, ShareAcknowledgeRequest: 2, MetadataRequest: 12}
Pair = tuple[msgspec.Struct, msgspec.Struct | None]


def fetch(
    session_id: int, epoch: int, added: dict[str, Iterable[int]] | None = None, *, forget: tuple[str, int] | None = None
) -> FetchRequest:
    topics = [FetchTopic(name, partitions=[FetchPartition(each) for each in of]) for name, of in (added or {}).items()]
    forgotten = [] if forget is None else [ForgottenTopic(forget[0], partitions=(forget[1],))]
    return FetchRequest(session_id=session_id, session_epoch=epoch, topics=topics, forgotten_topics_data=forgotten)


def got(session_id: int, error: ErrorCode = ErrorCode.NONE) -> FetchResponse:
    return FetchResponse(error_code=error, session_id=session_id)


def share(
    epoch: int, *added: tuple[bytes, int], forget: tuple[bytes, int] | None = None, member: str = "m"
) -> ShareFetchRequest:
    topics = [ShareTopic(topic_id, [SharePartition(number)]) for topic_id, number in added]
    forgotten = [] if forget is None else [ShareForgotten(forget[0], (forget[1],))]
    return ShareFetchRequest("g", member, epoch, topics=topics, forgotten_topics_data=forgotten)


def acknowledge(epoch: int) -> ShareAcknowledgeRequest:
    return ShareAcknowledgeRequest("g", "m", epoch, topics=[AcknowledgeTopic(B, [AcknowledgePartition(7, [])])])


def talked(pairs: Sequence[Pair], version: int | None = None, talk: Talk | None = None) -> Talk:
    talk = talk or Talk().open()
    for number, (request, response) in enumerate(pairs):
        chosen = version or VERSIONS[type(request)]
        talk.asks(encode_request(request, chosen, number, "me"))
        if response is not None:
            talk.answers(encode_response(response, chosen, number))
    return talk


def told(pairs: Sequence[Pair], version: int | None = None) -> list[tuple[object, ...]]:
    return columns(talked(pairs, version).rows())


def columns(found: Iterable[Row]) -> list[tuple[object, ...]]:
    return [(row["session_id"], row["session_epoch"], row["session_partitions"]) for row in found]


def test_an_incremental_fetch_stands_for_all_partitions_of_its_session() -> None:
    pairs = [
        (fetch(0, 0, {"t": [1, 0], "u": [3]}), got(5)),
        (fetch(5, 1), got(5)),
        (fetch(5, 2, {"t": [0, 4]}), got(5)),
        (fetch(5, 3, {"v": [0]}, forget=("u", 3)), got(5)),
        (fetch(5, -1), got(0)),
        (fetch(0, -1, {"t": [0]}), got(0)),
    ]

    assert told(pairs) == [
        (5, 0, '{"t":[0,1],"u":[3]}'),
        (5, 1, '{"t":[0,1],"u":[3]}'),
        (5, 2, '{"t":[0,1,4],"u":[3]}'),
        (5, 3, '{"t":[0,1,4],"v":[0]}'),
        (5, -1, None),
        (None, -1, None),
    ]


def test_a_fetch_older_than_sessions_says_nothing_of_them() -> None:
    old = FetchRequest(topics=[FetchTopic("t", partitions=[FetchPartition(0)])])

    assert told([(old, FetchResponse())], version=6) == [(None, None, None)]


def test_a_session_that_the_broker_does_not_open_is_none() -> None:
    assert told([(fetch(0, 0, {"t": [1]}), got(0)), (fetch(0, 0, {"t": [1]}), got(0, GONE))]) == [(None, 0, None)] * 2


def test_a_session_that_began_before_the_capture_has_no_known_partitions() -> None:
    assert told([(fetch(5, 8, {"t": [1]}), got(5)), (fetch(5, 9), got(5))]) == [(5, 8, None), (5, 9, None)]


def test_a_request_that_was_not_captured_makes_the_session_unknown_until_it_is_opened_anew() -> None:
    pairs = [
        (fetch(0, 0, {"t": [1]}), got(5)),
        (fetch(5, 2, {"u": [1]}), got(5)),
        (fetch(5, 3), got(5)),
        (fetch(5, 0, {"t": [2]}), got(6)),
        (fetch(6, 1), got(6)),
    ]

    assert [each[2] for each in told(pairs)] == ['{"t":[1]}', None, None, '{"t":[2]}', '{"t":[2]}']


def test_what_a_broker_refuses_changes_nothing_and_a_session_that_it_does_not_know_is_gone() -> None:
    pairs = [
        (fetch(0, 0, {"t": [1]}), got(5)),
        (fetch(5, 7, {"u": [1]}), got(5, WRONG_EPOCH)),
        (fetch(5, 1), got(5)),
        (fetch(5, 2, {"u": [1]}), got(0, GONE)),
        (fetch(5, 3), got(5)),
    ]

    assert [each[2] for each in told(pairs)] == ['{"t":[1]}', '{"t":[1]}', '{"t":[1]}', None, None]


def test_a_request_without_an_answer_is_taken_for_done() -> None:
    pairs: list[Pair] = [(fetch(0, 0, {"t": [1]}), got(5)), (fetch(5, 1, {"t": [2]}), None)]

    assert told(pairs)[1] == (5, 1, '{"t":[1,2]}')


@pytest.mark.parametrize("end", [0x11, 0x14], ids=["fin", "rst"])
def test_a_poll_that_its_connection_took_with_it_says_nothing_of_the_session_that_came_next(end: int) -> None:
    before = talked([(share(0, (A, 0)), ShareFetchResponse()), (share(1), ShareFetchResponse()), (share(2), None)])
    if end == 0x11:
        before.close()
    else:
        before.wires.append(reset(before.wires[-1]))
    start = before.wires[-1].ts
    after = Talk(("127.0.0.1", 40_001), start=start).open()
    talked([(share(epoch, *[(A, 1)][: 1 - epoch]), ShareFetchResponse()) for epoch in range(8)], talk=after)
    # The poll is told when nothing more can come of its connection, some seconds after its end.
    late = [each._replace(ts=each.ts + 9_000_000_000) for each in after.wires[-6:]]
    wires = [*before.wires, *after.wires[:-6], *late]

    topic = to_text(A)
    expected = [(None, epoch, f'{{"{topic}":[0]}}') for epoch in range(3)]
    expected += [(None, epoch, f'{{"{topic}":[1]}}') for epoch in range(8)]
    assert columns(read(pcap(wires))) == expected
    assert columns(read_capture(pcap(wires)).to_pylist()) == expected


def reset(wire: Wire) -> Wire:
    """A reset by the sender of this packet, behind it."""
    packet = wire.packet
    payload_size = struct.unpack_from(">H", packet, 2)[0] - 40
    seq = struct.unpack_from(">I", packet, 24)[0] + payload_size
    head = packet[:2] + struct.pack(">H", 40) + packet[4:24] + struct.pack(">I", seq) + packet[28:33] + b"\x14"
    return Wire(wire.ts + 1000, head + packet[34:40])


def test_epochs_go_on_with_1_behind_the_largest() -> None:
    followed = [(fetch(0, 0, {"t": [1]}), got(5)), (fetch(5, 1), got(5))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions, "_EPOCH_MAX", 1)
        assert told([*followed, (fetch(5, 1), got(5))])[2] == (5, 1, '{"t":[1]}')


def test_brokers_and_members_have_sessions_of_their_own() -> None:
    first = talked([(fetch(0, 0, {"t": [1]}), got(5))])
    other = talked([(fetch(5, 1), got(5))], talk=Talk(broker=("127.0.0.1", 9093)).open())
    # Another connection of the client goes on with its session.
    again = talked([(fetch(5, 1), got(5))], talk=Talk(("127.0.0.1", 40_001)).open())
    members = [(share(0, (A, 0)), ShareFetchResponse()), (share(1, member="n"), ShareFetchResponse())]

    found = columns(read(pcap(first.wires + other.wires + again.wires)))
    assert sorted(found, key=str) == [(5, 0, '{"t":[1]}'), (5, 1, '{"t":[1]}'), (5, 1, None)]
    assert [each[2] is None for each in told(members)] == [False, True]


def test_share_sessions_are_followed_through_fetches_and_acknowledgements() -> None:
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
    assert told(pairs) == [
        (None, 0, f'{{"{a}":[0],"{b}":[1]}}'),
        (None, 1, f'{{"{a}":[0],"{b}":[1]}}'),
        (None, 2, last),
        (None, 3, last),
        (None, 3, last),
        (None, -1, None),
        (None, 4, None),
    ]


def test_partitions_stand_under_the_names_of_their_topics_also_when_these_come_later() -> None:
    named = MetadataResponse(topics=[MetadataResponseTopic(name="t", topic_id=A)])
    anew = MetadataResponse(topics=[MetadataResponseTopic(name="t", topic_id=B)])
    pairs = [
        (share(0, (A, 0), (B, 1)), ShareFetchResponse()),
        (MetadataRequest(), named),
        (share(1), ShareFetchResponse()),
        (MetadataRequest(), anew),
        (share(2), ShareFetchResponse()),
    ]

    found = [each[2] for each in told(pairs) if each[1] is not None]
    assert found == [
        f'{{"{to_text(A)}":[0],"{to_text(B)}":[1]}}',
        f'{{"t":[0],"{to_text(B)}":[1]}}',
        # A topic that was made anew shares its name with the one before.
        f'{{"t":[0],"{to_text(B)}":[1]}}',
    ]


def test_sessions_are_bounded_in_number_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = [(fetch(0, 0, {"t": [1, 2]}), got(number)) for number in (1, 2, 3)]
    used = [(fetch(number, 1), got(number)) for number in (1, 2, 3)]

    monkeypatch.setattr(sessions, "SESSIONS_MAX", 2)
    assert [each[2] is None for each in told([*opened, *used])[3:]] == [True, False, False]
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 9)
    monkeypatch.setattr(sessions, "PARTITIONS_MAX", 2)
    assert [each[2] is None for each in told([*opened, *used])[3:]] == [True, True, False]


def test_a_session_of_too_many_partitions_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SESSION_PARTITIONS_MAX", 2)
    grown = [(fetch(0, 0, {"t": [1, 2]}), got(5)), (fetch(5, 1, {"u": [1]}), got(5)), (fetch(5, 2), got(5))]
    opened = [(fetch(0, 0, {"t": [1, 2, 3]}), got(6)), (fetch(6, 1, forget=("t", 3)), got(6))]
    anew = [(fetch(6, 0, {"t": [1]}), got(7)), (fetch(7, 1), got(7))]

    assert told([*grown, *opened, *anew]) == [
        (5, 0, '{"t":[1,2]}'),
        (5, 1, None),
        (5, 2, None),
        (6, 0, None),
        (6, 1, None),
        (7, 0, '{"t":[1]}'),
        (7, 1, '{"t":[1]}'),
    ]


def test_the_sessions_of_a_real_consumer_and_of_real_share_consumers_are_known_throughout() -> None:
    fetches = [row for row in rows(CAPTURES / "small_kpy.pcap") if row["api_name"] == "Fetch"]
    shares = [row for row in rows(CAPTURES / "small_jshare.pcap") if str(row["api_name"]).startswith("Share")]

    assert columns(fetches) == [(94820119, epoch, '{"t-kpy":[0]}') for epoch in range(7)]
    sessions_of = [row for row in shares if row["session_epoch"] is not None]
    assert [row["session_epoch"] for row in sessions_of] == [*range(8), -1, *range(8)]
    assert {row["session_partitions"] for row in sessions_of} == {'{"t-share2":[0]}', None}
    # Without their beginning nothing is known of them.
    late = [row for row in read(pcap(wires_from("small_kpy.pcap", 94))) if row["api_name"] == "Fetch"]
    assert {row["session_partitions"] for row in late} == {None}
    assert late


def wires_from(name: str, start: int) -> list[Wire]:
    return ip_packets(CAPTURES / name)[start:]


def test_table_and_tree_show_what_a_request_stands_for(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(CAPTURES / "small_kpy.pcap")

    assert main(["decode", path, "--api", "Fetch"]) == 0
    assert capsys.readouterr().out.count("session 94820119 epoch 3  of all t-kpy[0]") == 1
    assert main(["decode", path, "--api", "Fetch", "--format", "tree"]) == 0
    assert "  of all t-kpy[0]\n" in capsys.readouterr().out


def test_table_says_when_a_session_is_not_known(
    capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("captures") / "late.pcap"
    path.write_bytes(pcap(talked([(fetch(5, 8), got(5)), (fetch(5, 9), got(0, GONE))]).wires))

    assert main(["decode", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert ["not captured from its beginning" in line for line in lines] == [True, False]
