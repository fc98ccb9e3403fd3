"""Checkpoints between captures of a series: open connections and requests continue in the next capture."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from kwire.capture.files.packet_reader import read_packets
from kwire.capture.model import Row, Segment
from kwire.capture.options import Options
from kwire.capture.reader import read_rows, read_series_rows
from kwire.capture.rows.columns import LEVELS
from kwire.capture.series.checkpoint import (
    IncompatibleCheckpoint,
    InvalidCheckpoint,
    dump_checkpoint,
    load_checkpoint,
)
from kwire.capture.series.open_series import open_series
from kwire.capture.tls.key_log import KeyLog, read_key_logs
from tests.support.capture_model.packet_dissection import dissect_packets
from tests.support.captures.capture_files import build_pcap
from tests.support.captures.index_captures import connection_with_exchanges, request_bytes, response_bytes

pytestmark = pytest.mark.slow

CAPTURES = Path(__file__).parents[3] / "captures"
FILES = sorted(CAPTURES.glob("*.pcap"))
PIECES = 7


def options_of(file: Path) -> Options:
    keys = file.with_suffix(".keys")
    return Options(tls_keylog=read_key_logs([keys]) if keys.exists() else "", sessions=True)


def in_pieces(file: Path, level: str, options: Options, count: int) -> list[Row]:
    """The rows of a capture that is read in files of so many packets, with a checkpoint after each."""
    keys = KeyLog(options.tls_keylog)
    packets = list(read_packets(str(file), keys))
    series, rows = open_series(level, options, keys), list[Row]()
    for start in range(0, len(packets), count):
        found = series.read_file(packets[start : start + count])
        rows += read_series_rows(series, str(file), found, level, options)
        series = load_checkpoint(dump_checkpoint(series), options, keys)
    return rows + list(read_series_rows(series, str(file), series.close(), level, options))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_capture_in_pieces_has_the_rows_of_the_whole(file: Path, level: str) -> None:
    options = options_of(file)

    rows = in_pieces(file, level, options, len(list(read_packets(str(file)))) // PIECES + 1)

    assert sorted(map(str, rows)) == sorted(map(str, read_rows(str(file), level, options)))


@pytest.mark.parametrize("name", ["small_share", "small_tlskey"])
def test_a_capture_of_one_file_for_each_packet_has_the_rows_of_the_whole(name: str) -> None:
    file = CAPTURES / f"{name}.pcap"
    options = options_of(file)

    rows = in_pieces(file, "messages", options, 1)

    assert sorted(map(str, rows)) == sorted(map(str, read_rows(str(file), "messages", options)))


def test_an_open_request_expires() -> None:
    options, keys = Options(), KeyLog("")
    series = open_series("messages", options, keys)
    sent = -1
    for packet in read_packets(str(CAPTURES / "small_share.pcap"), keys):
        rows = list(read_series_rows(series, "", series.read_file([packet]), "messages", options))
        (segment,) = dissect_packets([packet])
        if isinstance(segment, Segment) and segment.payload and not rows:
            sent = segment.ts
            break

    early = list(read_series_rows(series, "", series.expire(sent), "messages", options))
    late = list(read_series_rows(series, "", series.expire(sent + 1), "messages", options))

    assert early == []
    assert [row["status"] for row in late] == ["no_response"]
    assert list(series.close()) == []


def test_a_checkpoint_of_connections_that_are_closed_is_small() -> None:
    options, keys = Options(), KeyLog("")
    series = open_series("messages", options, keys)
    for number in range(400):
        connection = connection_with_exchanges(2, port=40_000 + number)
        begun = connection.send_client_bytes(b"\0\0\7\xd0" + request_bytes(5))
        for _ in series.read_file(read_packets(build_pcap(begun.packets))):
            pass

    opened = len(dump_checkpoint(series))
    for _ in series.expire(2**62):
        pass
    closed = len(dump_checkpoint(series))

    # Endpoints and epochs remain.
    assert closed < 400 * 80 + 10_000 < opened / 4


def test_bytes_of_complete_messages_are_not_in_the_checkpoint() -> None:
    series = open_series("messages", Options(), KeyLog(""))
    connection = connection_with_exchanges(2)
    for number in range(2, 60):
        connection.exchange(request_bytes(number), response_bytes(number) + b"body of 100 times" * 100)
    for _ in series.read_file(read_packets(build_pcap(connection.packets))):
        pass

    written = dump_checkpoint(series)

    assert b"body of 100 times" not in written
    assert len(written) < 20_000


def test_a_checkpoint_of_generators_is_of_another_version() -> None:
    header, _, content = dump_checkpoint(open_series("messages", Options(), KeyLog(""))).partition(b"\n")
    attributes = json.loads(header)
    before, now = "kwire.capture.series.checkpoint.PipelineState", "kwire.capture.series.exchange_series.ExchangeSeries"
    attributes[before] = attributes.pop(now)
    module, name = (text.encode() for text in before.rsplit(".", 1))
    written = json.dumps(attributes).encode() + b"\nc" + module + b"\n" + name + b"\n."

    with pytest.raises(IncompatibleCheckpoint, match="PipelineState has changed"):
        load_checkpoint(written, Options(), KeyLog(""))
    assert content


class _Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("harm",)


@pytest.mark.parametrize(
    "written",
    [
        b"",
        b"nonsense",
        pickle.dumps(_Evil()),
        pickle.dumps(["a list"]),
        pickle.dumps(Path("kwire")),
        pickle.dumps(read_rows),
        b"ckwire.capture.keylog\nPath\n(S'/'\ntR.",
        b"ckwire.capture.live\nLive\n(S'lo'\ntR.",
        b"Pnobody\n.",
        b"cbuiltins\nbytearray\n(L70368744177664L\ntR.",
        b"{}\nckwire.capture.series.checkpoint\nStoredMethod\n(ckwire.capture.options\nOptions\nV__init__\ntR.",
        b"{}\nckwire.capture.series.checkpoint\nStoredArray\n(V|O\n(L1L\ntB\x08\0\0\0AAAAAAAAtR.",
        dump_checkpoint(open_series("messages", Options(), KeyLog("")))[:-20],
    ],
    ids=[
        "empty",
        "nonsense",
        "call",
        "list",
        "path",
        "function",
        "imported",
        "worldly",
        "given",
        "huge",
        "method",
        "objects",
        "cut",
    ],
)
def test_bytes_of_another_origin_are_an_error(written: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidCheckpoint):
        load_checkpoint(written, Options(), KeyLog(""))

    assert capsys.readouterr().out == ""


def test_secrets_of_the_user_are_not_in_the_checkpoint() -> None:
    file = CAPTURES / "small_tlskey.pcap"
    options = options_of(file)
    series = open_series("messages", options, KeyLog(options.tls_keylog))
    for _ in series.read_file(read_packets(str(file))):
        pass

    written = dump_checkpoint(series)

    lines = [line for line in options.tls_keylog.splitlines() if not line.startswith("#")]
    assert lines
    assert not any(line.encode() in written for line in lines)
