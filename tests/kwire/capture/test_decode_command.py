"""The command `kwire decode`: its three formats, filters, exit codes, secrets, and text that stays text."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from kwire.capture.schemas import LEVELS
from kwire.cli.main import main
from kwire.headers import encode_request, encode_response
from kwire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tests.kwire.capture.wire import CAPTURES, SHARE, Talk, pcap

Capsys = pytest.CaptureFixture[str]


def decode(capsys: Capsys, *args: object) -> tuple[int, list[str], str]:
    code = main(["decode", *map(str, args)])
    out, err = capsys.readouterr()
    return code, out.splitlines(), err


def test_the_table_has_one_aligned_line_for_each_exchange(capsys: Capsys) -> None:
    code, lines, err = decode(capsys, SHARE)

    assert (code, err) == (0, "")
    assert len(lines) == 45
    assert lines[0].split() == ["TIME", "CONNECTION", "API", "LATENCY", "RESULT", "SUMMARY"]
    column = lines[0].index("RESULT")
    assert {line[column - 2 : column] for line in lines} == {"  "}
    (fetch, _) = [line for line in lines if "ShareFetch v1" in line]
    assert fetch.startswith("08:59:24.987332  127.0.0.1:43644>127.0.0.1:21092  ShareFetch v1")
    assert fetch.endswith("  group sg1  t-share[1,0]  acquired 102-203  102 records in 8611 bytes  session 0")


def test_json_lines_have_the_columns_of_the_rows(capsys: Capsys) -> None:
    code, lines, _ = decode(capsys, SHARE, "--format", "jsonl")
    found = [json.loads(line) for line in lines]

    assert code == 0
    assert len(found) == 44
    assert found[0]["req_ts"] == "2026-11-21T08:59:23.757735Z"
    assert json.loads(found[0]["body_request"])["clientSoftwareName"] == "confluent-kafka-python"
    assert {row["status"] for row in found} == {"ok"}


def test_the_tree_gives_every_field_its_bytes(capsys: Capsys) -> None:
    code, lines, _ = decode(capsys, SHARE, "--format", "tree", "--api", "shareacknowledge")
    text = "\n".join(lines)

    assert code == 0
    assert "ShareAcknowledge v1 1.472 ms ok" in lines[0]
    assert 'group_id: string = "sg1"' in text
    assert "46-50" in text
    assert "response: 15 bytes" in text


@pytest.mark.parametrize("level", ["partitions", "share_acquired", "share_acks", "records"])
def test_every_level_is_a_table_and_json_lines(capsys: Capsys, level: str) -> None:
    _, table, _ = decode(capsys, SHARE, "--level", level)
    _, lines, _ = decode(capsys, SHARE, "--level", level, "--format", "jsonl")

    assert len(table) == len(lines) + 1 > 1


def test_filters_leave_out_what_they_do_not_name(capsys: Capsys) -> None:
    def api_column(*args: str) -> set[str]:
        return {json.loads(line)["api_name"] for line in decode(capsys, SHARE, "--format", "jsonl", *args)[1]}

    assert api_column("--api", "ShareFetch", "--api", "ShareAcknowledge") == {"ShareFetch", "ShareAcknowledge"}
    assert api_column("--error") == {"CreateTopics", "InitProducerId"}
    assert api_column("--client-id", "Persister-client-1") == {"ReadShareGroupState", "WriteShareGroupState"}
    assert api_column("--status", "no_response") == set()
    assert api_column("--port", "9092") == set()


def test_a_capture_without_kafka_exits_with_1_and_says_so(capsys: Capsys) -> None:
    code, _, err = decode(capsys, SHARE, "--port", 9092)
    assert (code, "no Kafka request found" in err) == (1, True)

    code, lines, err = decode(capsys, CAPTURES / "small_tlskey.pcap")
    assert (code, len(lines)) == (1, 3)
    assert "2 connections speak TLS" in err


def test_tls_is_read_with_a_key_log(capsys: Capsys) -> None:
    code, lines, err = decode(capsys, CAPTURES / "small_tlskey.pcap", "--tls-keylog", CAPTURES / "small_tlskey.keys")
    assert (code, err, len(lines)) == (0, "", 8)
    assert "Produce v9" in lines[-1]

    code, _, err = decode(capsys, CAPTURES / "small_tlskey.pcap", "--tls-keylog", SHARE)
    assert (code, "no line of it is a TLS secret" in err) == (2, True)
    assert decode(capsys, SHARE, "--tls-keylog", "absent.keys")[0] == 2


def test_wrong_use_exits_with_2(capsys: Capsys, tmp_path: Path) -> None:
    assert decode(capsys, SHARE, "--api", "Nonsense")[0] == 2
    assert decode(capsys, SHARE, "--port", "0")[0] == 2
    assert decode(capsys, SHARE, "--edition", "5.0")[0] == 2
    assert decode(capsys, tmp_path / "absent.pcap")[0] == 2
    assert decode(capsys)[0] == 2


def test_a_file_that_is_no_capture_is_named_and_the_others_are_read(capsys: Capsys, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.pcap"
    wrong.write_bytes(b"not a capture")
    code, lines, err = decode(capsys, wrong, SHARE)

    assert code == 1
    assert "wrong.pcap: neither pcap nor pcapng" in err
    assert len(lines) == 46


def test_a_capture_may_come_from_stdin(capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(SHARE.read_bytes())

    monkeypatch.setattr(sys, "stdin", Stdin())

    assert len(decode(capsys, "-")[1]) == 45


SECRET = "hunter2-s3cr3t"


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    configs = [AlterableConfig("ssl.key.password", 0, SECRET)]
    talk = Talk().open().asks(encode_request(SaslAuthenticateRequest(b"\0alice\0" + SECRET.encode()), 2, 1, "me"))
    talk.answers(encode_response(SaslAuthenticateResponse(0, auth_bytes=SECRET.encode()), 2, 1))
    talk.asks(encode_request(IncrementalAlterConfigsRequest([AlterConfigsResource(4, "1", configs)]), 1, 2, "me"))
    path = tmp_path / "secrets.pcap"
    path.write_bytes(pcap(talk.wires))
    return path


@pytest.mark.parametrize("form", ["table", "jsonl", "tree"])
def test_no_format_shows_a_secret_unless_asked_for(capsys: Capsys, secrets: Path, form: str) -> None:
    hidden = "\n".join(decode(capsys, secrets, "--format", form)[1])
    assert SECRET not in hidden
    assert SECRET.encode().hex() not in hidden.replace(" ", "")

    if form != "table":
        assert "***" in hidden
        assert SECRET in "\n".join(decode(capsys, secrets, "--format", form, "--show-secrets")[1])


@pytest.mark.parametrize("level", LEVELS)
def test_json_lines_have_the_columns_of_their_level_in_its_order(capsys: Capsys, level: str) -> None:
    lines = decode(capsys, SHARE, "--format", "jsonl", "--level", level)[1]

    assert lines
    assert {tuple(json.loads(line)) for line in lines} == {tuple(column.name for column in LEVELS[level])}


def test_a_tree_of_another_level_is_wrong_use(capsys: Capsys) -> None:
    code, lines, err = decode(capsys, SHARE, "--format", "tree", "--level", "records")

    assert (code, lines) == (2, [])
    assert "--format tree shows whole messages" in err


def test_payloads_are_shown_only_when_asked_for(capsys: Capsys) -> None:
    def values(*args: str) -> set[object]:
        lines = decode(capsys, SHARE, "--level", "records", "--format", "jsonl", *args)[1]
        return {json.loads(line)["value"] for line in lines}

    assert values() == {None}
    assert None not in values("--payload")


@pytest.mark.parametrize(
    ("form", "level"),
    [
        ("table", "messages"),
        ("table", "partitions"),
        ("jsonl", "messages"),
        ("jsonl", "partitions"),
        ("tree", "messages"),
    ],
)
def test_what_a_capture_says_cannot_act_on_the_terminal(capsys: Capsys, tmp_path: Path, form: str, level: str) -> None:
    evil = "\x1b[2J\x07\u202egpj.exe\u2028\x9b1m\x7f\x1f"
    topic = MetadataResponseTopic(0, evil, b"\1" * 16)
    talk = Talk().open().asks(encode_request(MetadataRequest(topics=None), 12, 1, evil))
    talk.answers(encode_response(MetadataResponse(topics=[topic], cluster_id=evil), 12, 1))
    path = tmp_path / "evil.pcap"
    path.write_bytes(pcap(talk.wires))

    assert main(["decode", str(path), "--format", form, "--level", level]) == 0
    text = capsys.readouterr().out
    assert not set(text) & set("\x1b\x07\u202e\u2028\x9b\x7f\x1f")


def test_a_tree_shows_bytes_behind_a_body(capsys: Capsys, tmp_path: Path) -> None:
    talk = Talk().open().asks(encode_request(MetadataRequest(topics=None), 12, 1, "me") + b"more")
    path = tmp_path / "more.pcap"
    path.write_bytes(pcap(talk.wires))

    code, lines, _ = decode(capsys, path, "--format", "tree")
    assert code == 0
    assert any("!! 4 bytes behind the end of the message" in line for line in lines)
