"""`--format pcapng`: the packets of what was chosen, and of nothing else, as a capture that tells the same of it."""

from __future__ import annotations

import io
import json
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType, ModuleType

import pytest

from kwire.capture import excerpt as module
from kwire.capture import held_packets
from kwire.capture.excerpt import Excerpt
from kwire.capture.exchange import Exchange, Outcome
from kwire.capture.keylog import KeyLog
from kwire.capture.options import Options
from kwire.capture.packets import packets
from kwire.capture.values import Packet
from kwire.cli.main import main
from kwire.headers import encode_request, encode_response
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from tests import needs
from tests.kwire.capture.impaired import CLEAR, copies
from tests.kwire.capture.wire import CAPTURES, SHARE, Talk, Wire, enhanced, interface, matched, pcap, read, section

Capsys = pytest.CaptureFixture[str]
PLAIN = sorted(path for path in CAPTURES.glob("*.pcap*") if "tls" not in path.name)


def chosen(source: bytes | Path, choose: Callable[[Outcome], bool], **options: object) -> tuple[bytes, Excerpt]:
    """What is written of the outcomes that are chosen."""
    out = io.BytesIO()
    excerpt = Excerpt(out, "test")
    made: Callable[..., Options] = Options
    read_with = made(**options)
    for outcome in excerpt.outcomes(source, read_with, KeyLog(read_with.tls_keylog)):
        if choose(outcome):
            excerpt.choose(outcome, "asked", "answered")
        excerpt.release(outcome)
    excerpt.flush()
    return out.getvalue(), excerpt


def api_of(outcome: Outcome) -> str | None:
    return outcome.request.api_name if isinstance(outcome, Exchange) and outcome.request is not None else None


@pytest.mark.parametrize("path", PLAIN, ids=lambda path: path.name)
def test_everything_chosen_tells_everything_again(path: Path) -> None:
    written, excerpt = chosen(path, lambda _: True)

    assert matched(read(written)) == matched(read(path.read_bytes()))
    assert (excerpt.encrypted, excerpt.incomplete) == (0, 0)


def whole_exchanges(data: bytes) -> list[tuple[object, ...]]:
    columns = ("api_name", "correlation_id", "client_id", "req_ts", "resp_ts", "latency_us")
    return [tuple(row[column] for column in columns) for row in read(data) if row["status"] == "ok"]


@pytest.mark.parametrize("way", ["lossy", "reordered", "doubled", "midstream"])
@pytest.mark.parametrize("name", CLEAR)
def test_damage_takes_no_exchange_away_that_was_whole(name: str, way: str) -> None:
    for wires in copies(name, way):
        written, excerpt = chosen(pcap(wires), lambda _: True)

        assert whole_exchanges(written) == whole_exchanges(pcap(wires))
        assert excerpt.incomplete == 0


@pytest.mark.parametrize("api", ["ShareFetch", "Produce", "CreateTopics", "ReadShareGroupState"])
def test_the_exchanges_of_an_api_can_be_read_from_their_packets(api: str) -> None:
    written, excerpt = chosen(SHARE, lambda outcome: api_of(outcome) == api)
    before, after = ([row for row in read(data) if row["api_name"] == api] for data in (SHARE.read_bytes(), written))

    assert [(row["req_ts"], row["latency_us"], row["status"], row["correlation_id"]) for row in after] == [
        (row["req_ts"], row["latency_us"], row["status"], row["correlation_id"]) for row in before
    ]
    assert before
    assert excerpt.incomplete == 0


def test_only_packets_of_the_capture_are_written_each_once_and_in_its_order() -> None:
    written, excerpt = chosen(SHARE, lambda outcome: api_of(outcome) in {"Produce", "Metadata"})
    all_of_it = [each.data for each in packets(SHARE) if isinstance(each, Packet)]
    kept = [each.data for each in packets(written) if isinstance(each, Packet)]

    assert excerpt.written == len(kept) == len(set(kept)) < len(all_of_it)
    assert kept == [each for each in all_of_it if each in set(kept)]


def test_nothing_chosen_is_a_capture_without_packets() -> None:
    written, _ = chosen(SHARE, lambda _: False)

    assert list(packets(written)) == []


def test_nothing_is_held_at_the_end() -> None:
    for choose in (chosen(SHARE, lambda _: True), chosen(SHARE, lambda _: False)):
        _, excerpt = choose
        assert (excerpt._all, excerpt._all_size, excerpt._connections) == ({}, 0, {})


def frames(*numbers: int) -> tuple[bytes, ...]:
    return tuple(encode_request(MetadataRequest(topics=None), 12, number, "me") for number in numbers)


def answers(*numbers: int) -> tuple[bytes, ...]:
    return tuple(encode_response(MetadataResponse(cluster_id="c" * 30), 12, number) for number in numbers)


def with_id(number: int) -> Callable[[Outcome], bool]:
    return lambda outcome: isinstance(outcome, Exchange) and getattr(outcome.request, "correlation_id", None) == number


def test_two_requests_in_one_packet_are_written_once_with_both_comments() -> None:
    talk = Talk().open().asks(*frames(1, 2)).answers(*answers(1)).answers(*answers(2)).close()
    written, _ = chosen(pcap(talk.wires), lambda _: True)

    assert written.count(b"asked; asked") == 1
    # The handshake, and three packets with frames.
    assert len(list(packets(written))) == 2 + 3


def test_a_request_without_an_answer_is_written_though_later_ones_were_answered() -> None:
    talk = Talk().open().asks(*frames(1)).asks(*frames(2)).answers(*answers(2))
    for number in range(3, 60):
        talk.asks(*frames(number)).answers(*answers(number))
    written, excerpt = chosen(pcap(talk.wires), with_id(1))

    rows = [row for row in read(written) if row["correlation_id"] == 1]
    assert [(row["status"], row["api_name"]) for row in rows] == [("no_response", "Metadata")]
    assert excerpt.incomplete == 0


def test_bytes_that_no_frame_could_be_read_from_are_written_too() -> None:
    talk = Talk().open().asks(*frames(1)).client_bytes(b"\xff" * 30).client_bytes(b"\xff" * 30).close()
    written, _ = chosen(pcap(talk.wires), lambda outcome: not isinstance(outcome, Exchange))
    payloads = b"".join(each.data for each in packets(written) if isinstance(each, Packet))

    assert b"\xff" * 30 in payloads
    assert frames(1)[0] not in payloads


def test_sequence_numbers_may_wrap() -> None:
    talk = Talk(isn=(2**32 - 20, 2**32 - 5)).open()
    for number in range(1, 6):
        talk.asks(*frames(number)).answers(*answers(number))
    written, excerpt = chosen(pcap(talk.wires), with_id(1))

    assert [row["correlation_id"] for row in read(written) if row["status"] == "ok"] == [1]
    assert excerpt.incomplete == 0


def test_what_came_out_of_order_and_again_is_written() -> None:
    talk = Talk().open().asks(*frames(1)).answers(*answers(1))
    data = talk.wires
    wires = [*data[:3], data[3], data[3]._replace(ts=data[3].ts + 1), *data[4:]]
    written, _ = chosen(pcap(wires), lambda _: True)

    assert len(list(packets(written))) == 2 + 3


def test_packets_keep_their_link_and_their_length_on_the_wire() -> None:
    wires = ip_wires(*frames(1))
    ethernet = b"\0" * 12 + b"\x08\0"
    data = section() + interface() + interface(link=1)
    for index, wire in enumerate(wires):
        link = ethernet if index % 2 else b""
        data += enhanced(wire.ts // 1000, link + wire.packet, number=index % 2)
    written, _ = chosen(data, lambda _: True)

    assert {each.link for each in packets(written) if isinstance(each, Packet)} == {1, 101}
    cut = pcap([wire._replace(kept=59) for wire in wires])
    written, _ = chosen(cut, lambda _: True, ports=frozenset({9092}))
    sizes = {(len(each.data), each.size) for each in packets(written) if isinstance(each, Packet)}
    assert max(sizes)[1] > 59
    assert max(sizes)[0] == 59


def ip_wires(*asked: bytes) -> list[Wire]:
    return Talk().open().asks(*asked).answers(*answers(1)).close().wires


def test_packets_that_take_too_much_are_given_up_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD_SIZE_MAX", 300)
    talk = Talk().open().asks(*frames(1))
    for number in range(2, 8):
        talk.asks(*frames(number))
    talk.answers(*answers(1, 2, 3, 4, 5, 6, 7))
    _, excerpt = chosen(pcap(talk.wires), lambda _: True)

    assert excerpt.incomplete > 0


def test_little_is_held_where_all_packets_have_one_time() -> None:
    talk = Talk().open()
    for number in range(1, 1_500):
        talk.asks(*frames(number)).answers(*answers(number))
    excerpt = Excerpt(io.BytesIO(), "test")
    held = []
    for outcome in excerpt.outcomes(pcap([wire._replace(ts=10**18) for wire in talk.wires]), Options(), KeyLog("")):
        excerpt.release(outcome)
        held.append(len(excerpt._all))

    assert len(held) >= 1_499
    assert max(held) <= 1_001


def test_the_work_grows_with_the_packets_however_many_requests_wait() -> None:
    def calls(waiting: int) -> int:
        talk = Talk().open()
        for number in range(waiting):
            talk.asks(*frames(number))
        for number in range(waiting, 2 * waiting):
            talk.asks(*frames(number)).answers(*answers(number))
        return _calls_in(module, talk.wires) + _calls_in(held_packets, talk.wires)

    assert calls(400) < 2.3 * calls(200)


def _calls_in(where: ModuleType, wires: list[Wire]) -> int:
    """How often functions of a module are called, or go on, while all exchanges of a capture are let go."""
    count = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_filename == where.__file__

    excerpt = Excerpt(io.BytesIO(), "test")
    sys.setprofile(note)
    try:
        for outcome in excerpt.outcomes(pcap(wires), Options(), KeyLog("")):
            excerpt.release(outcome)
    finally:
        sys.setprofile(None)
    return count


def test_other_connections_are_not_held() -> None:
    talk = Talk().open().client_bytes(b"GET / HTTP/1.1\r\n\r\n").server_bytes(b"x" * 60_000)
    held: list[int] = []
    out = io.BytesIO()
    excerpt = Excerpt(out, "test")
    kafka = Talk(client=("127.0.0.1", 40_001), start=talk.wires[-1].ts).open().asks(*frames(1)).answers(*answers(1))
    for outcome in excerpt.outcomes(pcap([*talk.wires, *kafka.wires]), Options(), KeyLog("")):
        if isinstance(outcome, Exchange):
            held.append(excerpt._all_size)

    assert held
    assert held[0] < 2_000


def test_the_command_writes_a_file_that_wireshark_can_open(capsys: Capsys, tmp_path: Path) -> None:
    out = tmp_path / "out.pcapng"

    assert main(["decode", str(SHARE), "-Y", "api=ShareFetch", "--format", "pcapng", "-o", str(out)]) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "credentials and records in them are not hidden" in shown.err
    data = out.read_bytes()
    assert b"ShareFetch v1, correlation id 5, client ck-share" in data
    assert b"ShareFetch v1 response, 24.738 ms, ok" in data
    assert b"pass the filter api=ShareFetch" in data
    assert main(["decode", str(out), "--api", "ShareFetch", "--format", "jsonl"]) == 0
    assert [json.loads(line)["status"] for line in capsys.readouterr().out.splitlines()] == ["ok", "ok"]


def test_wireshark_shows_the_comments(tmp_path: Path) -> None:
    tshark = needs.tool("tshark")
    out = tmp_path / "out.pcapng"
    out.write_bytes(chosen(SHARE, lambda outcome: api_of(outcome) == "ShareFetch")[0])
    command = [tshark, "-r", str(out), "-Y", "frame.comment", "-T", "fields", "-e", "tcp.len", "-e", "frame.comment"]

    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert shown == ["107\tasked", "59\tanswered", "120\tasked", "59\tanswered"]


def test_comments_cannot_act_on_a_terminal(capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
    talk = Talk().open().asks(encode_request(MetadataRequest(topics=None), 12, 1, "\x1b[2Jevil")).answers(*answers(1))
    path = tmp_path / "evil.pcap"
    path.write_bytes(pcap(talk.wires))

    assert main(["decode", str(path), "--format", "pcapng"]) == 0
    out = capsysbinary.readouterr().out
    assert b"client \\x1b[2Jevil" in out
    assert struct.unpack_from("<I", out)[0] == 0x0A0D0D0A


def test_exchanges_over_tls_are_left_out_and_told(capsys: Capsys, tmp_path: Path) -> None:
    out = tmp_path / "out.pcapng"
    words = [str(CAPTURES / "small_tlskey.pcap"), "--tls-keylog", str(CAPTURES / "small_tlskey.keys")]

    assert main(["decode", *words, "--format", "pcapng", "-o", str(out)]) == 0
    assert "7 exchanges came over TLS and are left out" in capsys.readouterr().err
    assert b"CLIENT_" not in out.read_bytes()


def test_a_capture_is_not_written_over(capsys: Capsys, tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(SHARE.read_bytes())

    assert main(["decode", str(path), "--format", "pcapng", "-o", str(path)]) == 2
    assert "is the capture that is read" in capsys.readouterr().err
    assert path.read_bytes() == SHARE.read_bytes()
