"""``kwire decode`` of a plain file, which is read by its index after the first packets: same output as for a stream."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path

import pytest

from kwire.capture import progressive_reader
from kwire.capture.columnar.filtered import filtered_lines
from kwire.capture.kafka.exchange import Exchange
from kwire.capture.options import Options
from kwire.capture.progressive_reader import IndexingStarted, Replayed, Restarted
from kwire.capture.reader import collect_topic_names, read_events, read_outcomes
from kwire.headers import encode_request, encode_response
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.captures.capture_files import SHARE, CapturedConnection, build_pcap, read_ip_packets
from tests.support.captures.index_captures import FILES, build_test_captures
from tests.support.captures.late_topic_name import late_name_capture
from tests.support.cli.commands import Capsys, Shown, run_kwire

pytestmark = pytest.mark.slow

MADE = build_test_captures()
WAYS = {
    "table": [],
    "table in colours": ["--color", "always", "--slow", "1ms"],
    "filtered": ["-Y", "api=ShareFetch and error=0"],
    "few columns of what is odd": ["--columns", "req_ts,api,status,issues", "-Y", "status!=ok or latency>1ms"],
    "json of what failed": ["--format", "jsonl", "--error"],
    "one client": ["--format", "jsonl", "--client-id", "ck-share", "-Y", "topic ~ t and time>=00:00:00"],
    "json": ["--format", "jsonl"],
    "json of few columns": ["--format", "jsonl", "--columns", "req_ts,session_partitions,body_response,tls,software"],
    "table of columns by what is not shown": ["--columns", "conn,latency", "-Y", "body_request ~ t and issue=null"],
    "table of columns by topic": ["--columns", "api,status", "-Y", "topic ~ share or topic=null"],
    "records": ["--level", "records", "-Y", "api in (Produce, ShareFetch)"],
    "no response": ["--status", "no_response", "--format", "tree"],
}


@pytest.fixture(autouse=True)
def _few_packets_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progressive_reader, "FIRST_PACKETS", 30)


def decode_as_file_and_stream(
    path: Path, args: list[str], capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> tuple[Shown, Shown]:
    """The output for a file, and for the same bytes as a stream with given topic names."""
    of_file = run_kwire(capsys, "decode", path, *args)
    names = collect_topic_names([path], Options())
    topics = ["--topics", topics_of(path, names)] if names else []
    with path.open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        code, lines, err = run_kwire(capsys, "decode", "-", *topics, *args)
    lines = [line.replace('"file":"-"', f'"file":"{path}"') for line in lines]
    return of_file, (code, lines, err.replace("kwire: -:", f"kwire: {path}:"))


def topics_of(path: Path, names: dict[str, str]) -> Path:
    topics = path.with_suffix(".topics")
    topics.write_text("\n".join(f"{topic_id} {name}" for topic_id, name in names.items()))
    return topics


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_captures_of_clients(
    path: Path, way: str, tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    of_file, of_stream = decode_as_file_and_stream(copy, WAYS[way], capsys, monkeypatch)

    assert of_file == of_stream


@pytest.mark.parametrize("name", MADE)
def test_captures_of_every_kind_and_damage(
    name: str, tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "made.pcap"
    path.write_bytes(MADE[name])
    for way in ("table", "json", "json of what failed"):
        of_file, of_stream = decode_as_file_and_stream(path, WAYS[way], capsys, monkeypatch)

        assert of_file == of_stream


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("path", [FILES[0], SHARE], ids=lambda path: path.stem)
def test_lines_are_in_order_among_lossy_flows(
    path: Path, seed: int, tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, copy = random.Random(seed), tmp_path / "lossy.pcap"
    copy.write_bytes(build_pcap([each for each in read_ip_packets(path) if chance.random() > 0.02]))
    # Few lines at once, so that outcomes of lossy flows belong between them.
    monkeypatch.setattr(filtered_lines, "_COUNT_MAX", 5)
    for way in ("table", "json"):
        of_file, of_stream = decode_as_file_and_stream(copy, WAYS[way], capsys, monkeypatch)

        assert of_file == of_stream


def test_topics_have_the_names_that_come_later(tmp_path: Path, capsys: Capsys) -> None:
    path = tmp_path / "late.pcap"
    path.write_bytes(late_name_capture())
    code, lines, err = run_kwire(capsys, "decode", path)

    assert (code, err, len(lines)) == (0, "", 3)
    assert "mine[3]" in lines[1]


def test_skipped_exchanges_are_checked_for_damage(tmp_path: Path, capsys: Capsys) -> None:
    talk = CapturedConnection().open()
    for number in range(40):
        talk.send_requests(encode_request(MetadataRequest(), 12, number, "me"))
        talk.send_responses(encode_response(MetadataResponse(), 12, number) + (b"\xff" if number == 30 else b""))
    talk.send_requests(encode_request(MetadataRequest(), 12, 99, "me"))
    talk.send_responses(encode_response(MetadataResponse(), 12, 99)[:-2])
    path = tmp_path / "cut.pcap"
    path.write_bytes(build_pcap(talk.close().packets))
    code, lines, _ = run_kwire(capsys, "decode", path, "-Y", "api=Fetch")

    assert (code, lines) == (1, [])


def test_exchanges_of_the_first_packets_are_emitted_at_once_and_replayed(tmp_path: Path) -> None:
    options, path = Options(), str(SHARE)
    found = list(read_events(path, options, "messages", path=path))
    exchanges = [event for event in found if isinstance(event, Exchange)]
    repeated = [event for event in found if isinstance(event, Replayed)]

    assert len(exchanges) == len(list(read_outcomes(path, options)))
    assert 0 < len(repeated) < len(exchanges)
    assert [type(event) for event in found[len(repeated) :][:2]] == [IndexingStarted, Restarted]


def test_any_file_name_is_accepted(tmp_path: Path, capsys: Capsys) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.pcap")
    path.write_bytes(SHARE.read_bytes())
    for args in (["--format", "jsonl"], ["--format", "jsonl", "-Y", "file contains caf"]):
        code, lines, err = run_kwire(capsys, "decode", path, *args)

        assert (code, err, len(lines)) == (0, "", 44)
        assert {json.loads(line)["file"] for line in lines} == {str(path)}
