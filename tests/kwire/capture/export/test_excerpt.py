"""`--format pcapng`: a capture with the packets of the selected exchanges only, which gives the same rows."""

from __future__ import annotations

import io
import json
import random
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kwire.capture.export.excerpt import Excerpt
from kwire.capture.files.packet_reader import read_packets
from kwire.capture.index.scan import stream_headers
from kwire.capture.kafka.exchange import Exchange, Outcome
from kwire.capture.model import NO_PACKET, NoPacket, Packet
from kwire.capture.options import Options
from kwire.capture.tls.key_log import KeyLog
from kwire.cli.main import main
from kwire.headers import encode_request, encode_response
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from tests.support import needs
from tests.support.capture_model.excerpt import write_model_excerpt
from tests.support.captures.capture_files import (
    CAPTURES,
    SHARE,
    CapturedConnection,
    CapturedPacket,
    build_interface,
    build_packet_block,
    build_pcap,
    build_section,
    comparable_exchanges,
    read_capture_rows,
    with_identification,
)
from tests.support.captures.impaired_captures import UNENCRYPTED_FILES, impaired_copies
from tests.support.captures.mutated_captures import mutate_capture

pytestmark = pytest.mark.slow

Capsys = pytest.CaptureFixture[str]
MUTATED_COUNT = 6
PLAIN = sorted(path for path in CAPTURES.glob("*.pcap*") if "tls" not in path.name)


def write_excerpt(source: bytes | Path, choose: Callable[[Outcome], bool], **options: object) -> tuple[bytes, Excerpt]:
    """Write an excerpt of the outcomes that `choose` accepts."""
    output = io.BytesIO()
    excerpt = Excerpt(output, "test")
    made: Callable[..., Options] = Options
    read_with = made(**options)
    for outcome in excerpt.read_outcomes(source, read_with, KeyLog(read_with.tls_keylog)):
        if choose(outcome):
            excerpt.select_packets(outcome, "request", "response")
    excerpt.flush()
    return output.getvalue(), excerpt


def api_of(outcome: Outcome) -> str | None:
    return outcome.request.api_name if isinstance(outcome, Exchange) and outcome.request is not None else None


@pytest.mark.parametrize("path", PLAIN, ids=lambda path: path.name)
def test_an_excerpt_of_all_exchanges_has_all_rows(path: Path) -> None:
    written, excerpt = write_excerpt(path, lambda _: True)

    found, expected = (comparable_exchanges(read_capture_rows(data)) for data in (written, path.read_bytes()))
    assert found == expected
    assert (excerpt.encrypted, excerpt.incomplete) == (0, 0)


def has_problem(outcome: Outcome) -> bool:
    return isinstance(outcome, Exchange) and (outcome.request is None or outcome.response is None)


@pytest.mark.parametrize("part_size", [3, 1000])
@pytest.mark.parametrize("choose", [lambda _: True, has_problem], ids=["all", "problems"])
def test_excerpts_have_the_same_bytes_as_those_of_the_model(
    part_size: int, choose: Callable[[Outcome], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_headers, "_COUNT_FIRST", part_size)
    monkeypatch.setattr(stream_headers, "_COUNT_MAX", 2 * part_size)
    captures = [("share", SHARE.read_bytes())]
    captures += [mutate_capture(random.Random(seed))[:2] for seed in range(MUTATED_COUNT)]

    for label, data in captures:
        written, excerpt = write_excerpt(data, choose)
        expected = write_model_excerpt(data, choose, Options(), "test")
        assert (written, excerpt.written, excerpt.encrypted, excerpt.incomplete) == expected, label


def complete_exchanges(data: bytes) -> list[tuple[object, ...]]:
    columns = ("api_name", "correlation_id", "client_id", "req_ts", "resp_ts", "latency_us")
    rows = [row for row in read_capture_rows(data) if row["status"] == "ok" and row["conn_id"] is not None]
    return [tuple(row[column] for column in columns) for row in rows]


@pytest.mark.parametrize("way", ["lossy", "reordered", "doubled", "midstream"])
@pytest.mark.parametrize("name", UNENCRYPTED_FILES)
def test_an_excerpt_of_a_damaged_capture_has_all_complete_exchanges(name: str, way: str) -> None:
    for packets in impaired_copies(name, way):
        written, excerpt = write_excerpt(build_pcap(packets), lambda _: True)

        assert complete_exchanges(written) == complete_exchanges(build_pcap(packets))
        assert excerpt.incomplete == 0


@pytest.mark.parametrize("api", ["ShareFetch", "Produce", "CreateTopics", "ReadShareGroupState"])
def test_the_exchanges_of_an_api_can_be_read_from_their_packets(api: str) -> None:
    written, excerpt = write_excerpt(SHARE, lambda outcome: api_of(outcome) == api)
    columns = ("req_ts", "latency_us", "status", "correlation_id")
    before, after = (
        [[row[column] for column in columns] for row in read_capture_rows(data) if row["api_name"] == api]
        for data in (SHARE.read_bytes(), written)
    )

    assert after == before != []
    assert excerpt.incomplete == 0


def test_packets_are_written_once_and_in_capture_order() -> None:
    written, excerpt = write_excerpt(SHARE, lambda outcome: api_of(outcome) in {"Produce", "Metadata"})
    all_packets = [each.data for each in read_packets(SHARE) if isinstance(each, Packet)]
    stored = [each.data for each in read_packets(written) if isinstance(each, Packet)]

    assert excerpt.written == len(stored) == len(set(stored)) < len(all_packets)
    assert stored == [each for each in all_packets if each in set(stored)]


def test_exchanges_can_be_selected_while_the_source_waits() -> None:
    connection = CapturedConnection().open().exchange(request_frame(1), response_frame(1))
    count = len(connection.packets)
    capture = build_pcap(connection.send_requests(request_frame(2)).packets)
    packets = [each for each in read_packets(capture) if isinstance(each, Packet)]
    waits: list[bool] = []

    class WaitingSource:
        def packets(self, keys: object) -> Iterator[Packet | NoPacket]:
            yield from packets[:count]
            yield NO_PACKET
            waits.append(True)
            yield from packets[count:]

    output = io.BytesIO()
    excerpt = Excerpt(output, "test")
    outcomes = excerpt.read_outcomes(WaitingSource(), Options(), KeyLog(""))
    excerpt.select_packets(next(outcomes), "request", "response")
    excerpt.flush()

    assert waits == []
    assert excerpt.written == 4
    assert len(list(outcomes)) == 1


def test_an_empty_selection_is_a_capture_without_packets() -> None:
    written, _ = write_excerpt(SHARE, lambda _: False)

    assert list(read_packets(written)) == []


def request_frame(number: int, client_id: str = "me") -> bytes:
    return encode_request(MetadataRequest(topics=None), 12, number, client_id)


def response_frame(number: int) -> bytes:
    return encode_response(MetadataResponse(cluster_id="c" * 30), 12, number)


def with_id(number: int) -> Callable[[Outcome], bool]:
    return lambda outcome: isinstance(outcome, Exchange) and getattr(outcome.request, "correlation_id", None) == number


def test_two_requests_in_one_packet_are_written_once_with_both_comments() -> None:
    connection = CapturedConnection().open().send_requests(request_frame(1), request_frame(2))
    connection.send_responses(response_frame(1)).send_responses(response_frame(2)).close()
    written, _ = write_excerpt(build_pcap(connection.packets), lambda _: True)

    assert written.count(b"request; request") == 1
    # The handshake, and three packets with frames.
    assert len(list(read_packets(written))) == 2 + 3


def test_a_request_without_a_response_is_written_after_later_exchanges() -> None:
    connection = CapturedConnection().open().send_requests(request_frame(1))
    for number in range(2, 60):
        connection.exchange(request_frame(number), response_frame(number))
    written, excerpt = write_excerpt(build_pcap(connection.packets), with_id(1))

    rows = [row for row in read_capture_rows(written) if row["correlation_id"] == 1]
    assert [(row["status"], row["api_name"]) for row in rows] == [("no_response", "Metadata")]
    assert excerpt.incomplete == 0


def test_bytes_of_a_stream_gap_are_written() -> None:
    connection = CapturedConnection().open().send_requests(request_frame(1))
    connection.send_client_bytes(b"\xff" * 30).send_client_bytes(b"\xff" * 30).close()
    written, _ = write_excerpt(build_pcap(connection.packets), lambda outcome: not isinstance(outcome, Exchange))
    payloads = b"".join(each.data for each in read_packets(written) if isinstance(each, Packet))

    assert b"\xff" * 30 in payloads
    assert request_frame(1) not in payloads


def test_sequence_numbers_may_wrap() -> None:
    connection = CapturedConnection(isn=(2**32 - 20, 2**32 - 5)).open()
    for number in range(1, 6):
        connection.exchange(request_frame(number), response_frame(number))
    written, excerpt = write_excerpt(build_pcap(connection.packets), with_id(1))

    assert [row["correlation_id"] for row in read_capture_rows(written) if row["status"] == "ok"] == [1]
    assert excerpt.incomplete == 0


def test_packets_that_were_sent_again_are_written_and_copies_are_not() -> None:
    data = CapturedConnection().open().exchange(request_frame(1), response_frame(1)).packets
    copy = data[3]._replace(ts=data[3].ts + 1)
    again = with_identification(copy, 0xFFFF)
    for second, count in ((again, 2), (copy, 1)):
        written, _ = write_excerpt(build_pcap([*data[:4], second, *data[4:]]), lambda _: True)

        assert len(list(read_packets(written))) == count + 3


def test_link_type_and_wire_length_of_packets_are_preserved() -> None:
    packets = exchange_packets()
    ethernet = b"\0" * 12 + b"\x08\0"
    data = build_section() + build_interface() + build_interface(link=1)
    for index, packet in enumerate(packets):
        link = ethernet if index % 2 else b""
        data += build_packet_block(packet.ts // 1000, link + packet.data, number=index % 2)
    written, _ = write_excerpt(data, lambda _: True)

    assert {each.link for each in read_packets(written) if isinstance(each, Packet)} == {1, 101}
    cut = build_pcap([packet._replace(stored_size=59) for packet in packets])
    written, _ = write_excerpt(cut, lambda _: True, ports=frozenset({9092}))
    sizes = {(len(each.data), each.size) for each in read_packets(written) if isinstance(each, Packet)}
    assert max(sizes)[1] > 59
    assert max(sizes)[0] == 59


def exchange_packets() -> list[CapturedPacket]:
    return CapturedConnection().open().exchange(request_frame(1), response_frame(1)).close().packets


def test_the_command_writes_a_file_that_wireshark_can_open(capsys: Capsys, tmp_path: Path) -> None:
    output = tmp_path / "out.pcapng"

    assert main(["decode", str(SHARE), "-Y", "api=ShareFetch", "--format", "pcapng", "-o", str(output)]) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "credentials and records in them are not hidden" in shown.err
    data = output.read_bytes()
    assert b"ShareFetch v1, correlation id 5, client ck-share" in data
    assert b"ShareFetch v1 response, 24.738 ms, ok" in data
    assert b"pass the filter api=ShareFetch" in data
    assert main(["decode", str(output), "--api", "ShareFetch", "--format", "jsonl"]) == 0
    assert [json.loads(line)["status"] for line in capsys.readouterr().out.splitlines()] == ["ok", "ok"]


def test_wireshark_shows_the_comments(tmp_path: Path) -> None:
    tshark = needs.tool("tshark")
    output = tmp_path / "out.pcapng"
    output.write_bytes(write_excerpt(SHARE, lambda outcome: api_of(outcome) == "ShareFetch")[0])
    command = [tshark, "-r", str(output), "-Y", "frame.comment", "-T", "fields", "-e", "tcp.len", "-e", "frame.comment"]

    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert shown == ["107\trequest", "59\tresponse", "120\trequest", "59\tresponse"]


def test_comments_cannot_act_on_a_terminal(capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
    connection = CapturedConnection().open().exchange(request_frame(1, "\x1b[2Jevil"), response_frame(1))
    path = tmp_path / "evil.pcap"
    path.write_bytes(build_pcap(connection.packets))

    assert main(["decode", str(path), "--format", "pcapng"]) == 0
    output = capsysbinary.readouterr().out
    assert b"client \\x1b[2Jevil" in output
    assert struct.unpack_from("<I", output)[0] == 0x0A0D0D0A


def test_exchanges_over_tls_are_omitted_and_reported(capsys: Capsys, tmp_path: Path) -> None:
    output = tmp_path / "out.pcapng"
    words = [str(CAPTURES / "small_tlskey.pcap"), "--tls-keylog", str(CAPTURES / "small_tlskey.keys")]

    assert main(["decode", *words, "--format", "pcapng", "-o", str(output)]) == 0
    assert "7 exchanges over TLS are left out" in capsys.readouterr().err
    assert b"CLIENT_" not in output.read_bytes()


def test_a_capture_is_not_overwritten(capsys: Capsys, tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(SHARE.read_bytes())

    assert main(["decode", str(path), "--format", "pcapng", "-o", str(path)]) == 2
    assert "is the capture that is read" in capsys.readouterr().err
    assert path.read_bytes() == SHARE.read_bytes()
