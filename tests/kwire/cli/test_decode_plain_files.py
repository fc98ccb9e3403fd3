"""A plain file is read by its index behind its first packets: what is shown and told is what a stream of it shows."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from kwire.capture import plain_file
from kwire.capture.exchange import Exchange
from kwire.capture.options import Options
from kwire.capture.pipeline import outcomes
from kwire.capture.topic_map import names_in
from kwire.cli.main import main
from kwire.headers import encode_request, encode_response
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from tests.kwire.capture.index.kit import FILES, made
from tests.kwire.capture.test_topic_map import late_name
from tests.kwire.capture.wire import SHARE, Talk, pcap

MADE = made()
WAYS = {
    "table": [],
    "filtered": ["-Y", "api=ShareFetch and error=0"],
    "few columns of what is odd": ["--columns", "req_ts,api,status,issues", "-Y", "status!=ok or latency>1ms"],
    "json of what failed": ["--format", "jsonl", "--error"],
    "one client": ["--format", "jsonl", "--client-id", "ck-share", "-Y", "topic ~ t and time>=00:00:00"],
    "json": ["--format", "jsonl"],
    "json of few columns": ["--format", "jsonl", "--columns", "req_ts,session_partitions,body_response,tls,software"],
    "table of columns by what is not shown": ["--columns", "conn,latency", "-Y", "body_request ~ t and issue=null"],
    "records": ["--level", "records", "-Y", "api in (Produce, ShareFetch)"],
    "no response": ["--status", "no_response", "--format", "tree"],
}

Capsys = pytest.CaptureFixture[str]
Shown = tuple[int, list[str], str]


@pytest.fixture(autouse=True)
def _few_packets_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_file, "FIRST_PACKETS", 30)


def shown(capsys: Capsys, *args: str) -> Shown:
    code = main(["decode", *args])
    out, err = capsys.readouterr()
    return code, out.splitlines(), err


def both_ways(path: Path, args: list[str], capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> tuple[Shown, Shown]:
    """What is shown of a file, and of the same bytes as a stream whose reader knows the names of its topics."""
    code, lines, err = shown(capsys, str(path), *args)
    topics = [] if (names := names_in([path], Options())) == {} else ["--topics", str(topics_of(path, names))]
    with path.open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        other_code, other_lines, other_err = shown(capsys, "-", *topics, *args)
    other_lines = [line.replace('"file":"-"', f'"file":"{path}"') for line in other_lines]
    return (code, lines, err), (other_code, other_lines, other_err.replace("kwire: -:", f"kwire: {path}:"))


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
    of_file, of_stream = both_ways(copy, WAYS[way], capsys, monkeypatch)

    assert of_file == of_stream


@pytest.mark.parametrize("name", MADE)
def test_captures_of_every_kind_and_damage(
    name: str, tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "made.pcap"
    path.write_bytes(MADE[name])
    for way in ("table", "json of what failed"):
        of_file, of_stream = both_ways(path, WAYS[way], capsys, monkeypatch)

        assert of_file == of_stream


def test_topics_have_the_names_that_come_later(tmp_path: Path, capsys: Capsys) -> None:
    path = tmp_path / "late.pcap"
    path.write_bytes(late_name())
    code, lines, err = shown(capsys, str(path))

    assert (code, err, len(lines)) == (0, "", 3)
    assert "mine[3]" in lines[1]


def test_what_is_passed_over_is_looked_at_for_damage(tmp_path: Path, capsys: Capsys) -> None:
    talk = Talk().open()
    for number in range(40):
        talk.asks(encode_request(MetadataRequest(), 12, number, "me"))
        talk.answers(encode_response(MetadataResponse(), 12, number) + (b"\xff" if number == 30 else b""))
    talk.asks(encode_request(MetadataRequest(), 12, 99, "me")).answers(encode_response(MetadataResponse(), 12, 99)[:-2])
    path = tmp_path / "cut.pcap"
    path.write_bytes(pcap(talk.close().wires))
    code, lines, _ = shown(capsys, str(path), "-Y", "api=Fetch")

    assert (code, lines) == (1, [])


def test_what_the_first_packets_tell_comes_at_once_and_is_repeated_later(tmp_path: Path) -> None:
    options, path = Options(), str(SHARE)
    found = list(plain_file.events(path, options, "messages", list))
    told = [event for event in found if isinstance(event, Exchange)]
    repeated = [event for event in found if isinstance(event, plain_file.Repeated)]

    assert len(told) == len(list(outcomes(path, options)))
    assert 0 < len(repeated) < len(told)
    assert [type(event) for event in found[len(repeated) :][:2]] == [plain_file.Pause, plain_file.Again]


def test_the_name_of_a_file_may_be_any(tmp_path: Path, capsys: Capsys) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.pcap")
    path.write_bytes(SHARE.read_bytes())
    for args in (["--format", "jsonl"], ["--format", "jsonl", "-Y", "file contains caf"]):
        code, lines, err = shown(capsys, str(path), *args)

        assert (code, err, len(lines)) == (0, "", 44)
        assert {json.loads(line)["file"] for line in lines} == {str(path)}
