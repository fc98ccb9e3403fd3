"""The command `kwire decode`: formats, filters, exit codes, secrets, and escaping of text."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

import kwire
import mockbroker
from kwire.capture.rows.columns import LEVELS
from kwire.cli.main import main
from kwire.headers import encode_request, encode_response
from kwire.messages import incremental_alter_configs as alter
from kwire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tests.support.captures.capture_files import (
    CAPTURES,
    SHARE,
    CapturedConnection,
    build_interface,
    build_option,
    build_packet_block,
    build_pcap,
    build_section,
    build_statistics,
    read_ip_packets,
)
from tests.support.cli.commands import Capsys, Shown, run_kwire

pytestmark = pytest.mark.slow


def decode(capsys: Capsys, *args: object) -> Shown:
    return run_kwire(capsys, "decode", *args)


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


def test_the_tree_shows_the_bytes_of_every_field(capsys: Capsys) -> None:
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


def test_filters_exclude_other_exchanges(capsys: Capsys) -> None:
    def api_column(*args: str) -> set[str]:
        return {json.loads(line)["api_name"] for line in decode(capsys, SHARE, "--format", "jsonl", *args)[1]}

    assert api_column("--api", "ShareFetch", "--api", "ShareAcknowledge") == {"ShareFetch", "ShareAcknowledge"}
    assert api_column("--error") == {"CreateTopics", "InitProducerId"}
    assert api_column("--client-id", "Persister-client-1") == {"ReadShareGroupState", "WriteShareGroupState"}
    assert api_column("--status", "no_response") == set()
    assert api_column("--port", "9092") == set()


def test_a_capture_without_kafka_exits_with_1_and_a_note(capsys: Capsys) -> None:
    code, _, err = decode(capsys, SHARE, "--port", 9092)
    assert (code, "no Kafka request found" in err) == (1, True)

    code, lines, err = decode(capsys, CAPTURES / "small_tlskey.pcap")
    assert (code, len(lines)) == (1, 3)
    assert "2 connections use TLS" in err


def test_tls_is_read_with_a_key_log(capsys: Capsys) -> None:
    code, lines, err = decode(capsys, CAPTURES / "small_tlskey.pcap", "--tls-keylog", CAPTURES / "small_tlskey.keys")
    assert (code, err, len(lines)) == (0, "", 8)
    assert "Produce v9" in lines[-1]

    code, _, err = decode(capsys, CAPTURES / "small_tlskey.pcap", "--tls-keylog", SHARE)
    assert (code, "no line of it is a TLS secret" in err) == (2, True)
    assert decode(capsys, SHARE, "--tls-keylog", "absent.keys")[0] == 2
    assert decode(capsys, SHARE, "--follow", "--duration", "1ms", "--tls-keylog", SHARE)[0] == 2


def test_usage_errors_exit_with_2(capsys: Capsys, tmp_path: Path) -> None:
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
    configs = [alter.AlterableConfig("ssl.key.password", 0, SECRET)]
    alteration = alter.IncrementalAlterConfigsRequest([alter.AlterConfigsResource(4, "1", configs)])
    login = SaslAuthenticateRequest(b"\0alice\0" + SECRET.encode())
    talk = CapturedConnection().open().send_requests(encode_request(login, 2, 1, "me"))
    talk.send_responses(encode_response(SaslAuthenticateResponse(0, auth_bytes=SECRET.encode()), 2, 1))
    talk.send_requests(encode_request(alteration, 1, 2, "me"))
    path = tmp_path / "secrets.pcap"
    path.write_bytes(build_pcap(talk.packets))
    return path


@pytest.mark.parametrize("form", ["table", "jsonl", "tree"])
def test_no_format_shows_a_secret_unless_requested(capsys: Capsys, secrets: Path, form: str) -> None:
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


def test_a_tree_of_another_level_is_a_usage_error(capsys: Capsys) -> None:
    code, lines, err = decode(capsys, SHARE, "--format", "tree", "--level", "records")

    assert (code, lines) == (2, [])
    assert "--format tree shows whole messages" in err


def test_payloads_are_shown_only_on_request(capsys: Capsys) -> None:
    def values(*args: str) -> set[object]:
        lines = decode(capsys, SHARE, "--level", "records", "--format", "jsonl", *args)[1]
        return {json.loads(line)["value"] for line in lines}

    assert values() == {None}
    assert None not in values("--payload")


@pytest.mark.parametrize(
    ("form", "level"),
    [*product(("table", "jsonl"), ("messages", "partitions")), ("tree", "messages")],
)
def test_text_of_a_capture_cannot_control_the_terminal(capsys: Capsys, tmp_path: Path, form: str, level: str) -> None:
    evil = "\x1b[2J\x07\u202egpj.exe\u2028\x9b1m\x7f\x1f"
    topic = MetadataResponseTopic(0, evil, b"\1" * 16)
    talk = CapturedConnection().open().send_requests(encode_request(MetadataRequest(topics=None), 12, 1, evil))
    talk.send_responses(encode_response(MetadataResponse(topics=[topic], cluster_id=evil), 12, 1))
    path = tmp_path / "evil.pcap"
    path.write_bytes(build_pcap(talk.packets))

    assert main(["decode", str(path), "--format", form, "--level", level]) == 0
    text = capsys.readouterr().out
    assert not set(text) & set("\x1b\x07\u202e\u2028\x9b\x7f\x1f")


def test_the_name_of_an_interface_cannot_control_the_terminal(capsys: Capsys, tmp_path: Path) -> None:
    packets = b"".join(build_packet_block(each.ts // 1000, each.data) for each in read_ip_packets())
    named = build_interface(options=build_option(2, b"evil\x1b[2J\x07\nforged line") + bytes(4))
    path = tmp_path / "evil.pcapng"
    path.write_bytes(build_section() + named + packets + build_statistics(dropped=7))

    _, _, err = decode(capsys, path)
    assert not set(err) & set("\x1b\x07")
    assert len(err.splitlines()) == 1
    assert "interface evil\\x1b[2J\\x07\\nforged line: 7 of 100 packets were dropped" in err


def test_a_tree_shows_bytes_after_a_body(capsys: Capsys, tmp_path: Path) -> None:
    request = encode_request(MetadataRequest(topics=None), 12, 1, "me")
    talk = CapturedConnection().open().send_requests(request + b"more")
    path = tmp_path / "more.pcap"
    path.write_bytes(build_pcap(talk.packets))

    code, lines, _ = decode(capsys, path, "--format", "tree")
    assert code == 0
    assert any("!! 4 bytes behind the end of the message" in line for line in lines)


def names(capsys: Capsys, *words: object) -> list[str]:
    _, lines, _ = decode(capsys, SHARE, "--format", "jsonl", "--columns", "api_name", *words)
    return [json.loads(line)["api_name"] for line in lines]


def test_a_filter_selects_rows(capsys: Capsys) -> None:
    fetches = ["ShareFetch", "ShareFetch"]
    assert names(capsys, "--filter", "api=ShareFetch or error!=0") == ["CreateTopics", "InitProducerId", *fetches]
    assert names(capsys, "-Y", "latency>20ms and not api in (ShareFetch, Produce)") == ["CreateTopics"]
    assert names(capsys, "-Y", "topic=t-share and api=ShareFetch") == fetches
    assert names(capsys, "-Y", 'body_request ~ \'"groupId":"sg1"\' and version=2') == []
    assert names(capsys, "-Y", "body_response ~ acquiredRecords") == fetches
    assert names(capsys, "-Y", "time<08:59:23.77", "--api", "Metadata") == ["Metadata"]


@pytest.mark.parametrize("form", ["table", "jsonl", "tree", "pcapng"])
def test_every_format_takes_a_filter_on_topics(capsysbinary: pytest.CaptureFixture[bytes], form: str) -> None:
    assert main(["decode", str(SHARE), "--format", form, "-Y", "topic=t-share and api=ShareAcknowledge"]) == 0
    nothing = capsysbinary.readouterr().out
    assert main(["decode", str(SHARE), "--format", form, "-Y", "topic=t-share and api=ShareFetch"]) == 0
    something = capsysbinary.readouterr().out

    assert len(something) > len(nothing) + 200


def test_a_filter_on_a_level_uses_its_columns(capsys: Capsys) -> None:
    def offsets(text: str, level: str = "records") -> int:
        return len(decode(capsys, SHARE, "--level", level, "--format", "jsonl", "-Y", text)[1])

    assert offsets("direction=share_fetch and offset>=102 and offset<110") > 0
    assert offsets("packet=1", "flows") == 0
    assert offsets("bytes_client>0 and kind=kafka", "flows") > 0
    assert offsets("ack=accept and last_offset=203", "share_acks") == 1


def test_an_invalid_filter_is_printed_with_the_position(capsys: Capsys) -> None:
    code, lines, err = decode(capsys, SHARE, "-Y", "api=ShareFetch and latncy>20ms")

    assert (code, lines) == (2, [])
    assert err.splitlines() == [
        "kwire: --filter: character 20: 'latncy' is no field of the level messages; did you mean latency?",
        "  api=ShareFetch and latncy>20ms",
        "                     ^^^^^^",
    ]
    assert decode(capsys, SHARE, "--level", "records", "-Y", "latency>1ms")[0] == 2
    code, _, err = decode(capsys, SHARE, "--level", "records", "-Y", "key=x")
    assert (code, "it requires --payload" in err) == (2, True)
    assert "\x1b" not in decode(capsys, SHARE, "-Y", "client=\x1b[2J\x07")[2]


def test_keys_and_values_can_be_filtered_with_payload(capsys: Capsys) -> None:
    lines = decode(capsys, SHARE, "--level", "records", "--payload", "--format", "jsonl", "-Y", "value ~ 1$")[1]

    assert lines
    assert all(json.loads(line)["value_size"] for line in lines)


def test_a_limit_counts_the_rows_of_all_captures(capsys: Capsys) -> None:
    assert len(decode(capsys, SHARE, "--limit", 3)[1]) == 4
    assert len(decode(capsys, SHARE, SHARE, "--limit", 46, "--format", "jsonl")[1]) == 46
    heads = [line for line in decode(capsys, SHARE, "--format", "tree", "--limit", 2)[1] if line[:1].isdigit()]
    assert len(heads) == 2


def test_columns_can_be_selected(capsys: Capsys) -> None:
    _, lines, _ = decode(capsys, SHARE, "--columns", "packet, api,latency_us", "--limit", 1)
    assert [line.split() for line in lines] == [["REQ_PACKET", "API", "LATENCY_US"], ["4", "ApiVersions", "2181"]]

    code, _, err = decode(capsys, SHARE, "--columns", "req_packet,nonsense")
    assert (code, "'nonsense' is no column of messages; it has file, conn_id" in err) == (2, True)
    assert "did you mean client_id?" in decode(capsys, SHARE, "--columns", "clientid")[2]
    other_level = decode(capsys, SHARE, "--columns", "topic")[2]
    assert "'topic' is no column of messages; --level partitions or " in other_level


def test_rows_can_be_written_to_a_file(capsys: Capsys, tmp_path: Path) -> None:
    out = tmp_path / "rows.txt"
    code, lines, err = decode(capsys, SHARE, "-o", out)

    assert (code, lines, err) == (0, [], "")
    assert out.read_text().splitlines() == decode(capsys, SHARE)[1]


@pytest.mark.parametrize(
    ("followed", "output"),
    [
        ("", "out.pcapng"),
        ("*.pcap*", "out.pcapng"),
        ("*/*.pcap", "a/b.pcap"),
        ("a.pcap", "a.pcap"),
        ("here", "out.cap"),
    ],
)
def test_rows_cannot_be_written_to_a_followed_file(capsys: Capsys, tmp_path: Path, followed: str, output: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "here").symlink_to(tmp_path)
    words = ("--follow", tmp_path / followed, "--duration", "1ms", "--color", "never", "-o")
    code, _, err = decode(capsys, *words, tmp_path / output)

    assert (code, "is among the captures that --follow reads" in err) == (2, True)
    assert not (tmp_path / output).exists()
    assert decode(capsys, *words, tmp_path / "a" / "rows.txt")[0] == 1
    assert (tmp_path / "a" / "rows.txt").exists()


@pytest.mark.parametrize("argument", ["--topics", "--tls-keylog"])
def test_other_input_files_are_not_overwritten(capsys: Capsys, tmp_path: Path, argument: str) -> None:
    path = tmp_path / "read"
    keys, topics = f"CLIENT_RANDOM {'00' * 32} {'00' * 48}\n", "fvtbe02hTLyuZUWVZ10nEw orders\n"
    path.write_text(keys if argument == "--tls-keylog" else topics)
    (tmp_path / "linked").symlink_to(path)
    before = path.read_bytes()
    code, _, err = decode(capsys, SHARE, argument, path, "-o", tmp_path / "linked")

    assert (code, "is an input too, and would be overwritten" in err) == (2, True)
    assert path.read_bytes() == before


def test_topics_can_be_named_by_a_file(capsys: Capsys, tmp_path: Path) -> None:
    capture, topics = tmp_path / "a.pcapng", tmp_path / "topics"
    # Without the connections that request metadata no message names the topic.
    decode(capsys, SHARE, "-Y", "api=ShareFetch", "--format", "pcapng", "-o", capture)
    topics.write_text("fvtbe02hTLyuZUWVZ10nEw orders\n")
    words = (capture, "--level", "share_acks", "--format", "jsonl", "--columns", "topic")

    assert json.loads(decode(capsys, *words)[1][0])["topic"] is None
    assert json.loads(decode(capsys, *words, "--topics", topics)[1][0])["topic"] == "orders"
    topics.write_text("nonsense")
    code, _, err = decode(capsys, *words, "--topics", topics)
    assert (code, str(topics) in err) == (2, True)
    assert decode(capsys, *words, "--topics", tmp_path / "absent")[0] == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "a capture is required"),
        (("a", "b", "--follow"), "--follow takes one file"),
        (("a", "-i", "lo"), "cannot be combined with files"),
        (("a", "--duration", "1s"), "--duration requires"),
        (("a", "--count", "1"), "--limit counts rows"),
        (("a", "--format", "pcapng", "--level", "records"), "shows whole messages"),
        (("a", "--format", "tree", "--columns", "file"), "--columns requires"),
        (("a", "--limit", "0"), "is not a count"),
        (("a", "--slow", "fast"), "is not a duration"),
        (("a", "--color", "green"), "invalid choice"),
    ],
)
def test_conflicting_arguments_are_usage_errors(capsys: Capsys, words: tuple[str, ...], message: str) -> None:
    code, _, err = decode(capsys, *words)

    assert code == 2
    assert message in err


def test_help_has_the_important_sections(capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, lines, _ = decode(capsys, "--help")
    text = "\n".join(lines)

    assert code == 0
    for word in ("input:", "what to show:", "output:", "filters:", "examples:", "Exit codes:", "NO_COLOR", "= null"):
        assert word in text
    assert lines[0] == "usage: kwire decode [OPTION]... CAPTURE..."
    assert max(map(len, lines)) <= 80


def test_the_examples_of_the_help_are_commands(capsys: Capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = decode(capsys, "--help")[1]
    examples = [shlex.split(line) for line in lines if line.startswith("  kwire decode trace.pcapng")]
    (tmp_path / "trace.pcapng").write_bytes(SHARE.read_bytes())
    monkeypatch.chdir(tmp_path)

    assert len(examples) == 5
    assert [main(words[1:]) for words in examples] == [0] * 5


def test_an_interface_is_read_until_the_packet_count(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kwire.cli.main", "decode", "-i", "lo", "--format", "jsonl", "--count", "2000"]
    command += ["--columns", "api,client", "--duration", "60s"]
    with (
        mockbroker.Cluster() as cluster,
        kwire.Client(cluster.bootstrap_servers) as client,
        subprocess.Popen(
            [*command, "--port", cluster.bootstrap_servers.rpartition(":")[2]],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        while process.poll() is None:
            client.send(MetadataRequest(topics=None))
        rows, complaints = process.communicate()

    if "may not be read" in complaints or "on Linux only" in complaints:
        pytest.skip(complaints)
    assert process.returncode == 0, complaints
    assert '{"api_name":"Metadata","client_id":"kwire"}' in rows


def test_a_missing_interface_is_an_error(capsys: Capsys) -> None:
    code, _, err = decode(capsys, "-i", "nonsense0")

    assert code == 2
    assert err.startswith("kwire: ")
    assert "nonsense0" in err


def test_options_of_other_tools_are_accepted(capsys: Capsys, tmp_path: Path) -> None:
    chosen = tmp_path / "chosen.pcapng"
    code, lines, err = decode(capsys, "-r", SHARE, "-Y", "api eq ShareFetch", "-w", chosen)
    assert (code, lines, "packets written" in err) == (0, [], True)

    apis = {json.loads(line)["api_name"] for line in decode(capsys, "-r", chosen, "-T", "jsonl")[1]}
    assert "ShareFetch" in apis
    assert len(decode(capsys, SHARE, "-c", 3)[1]) == 1 + 3
    assert len(decode(capsys, SHARE, "--api", "sharefetch,ShareAcknowledge")[1]) == 1 + 3
    assert "did you mean ShareFetch?" in decode(capsys, SHARE, "--api", "Fetch,ShareFetc")[2]


def test_a_folder_and_an_empty_file_are_reported(capsys: Capsys, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pcap"
    empty.touch()

    assert decode(capsys, empty) == (1, [], f"kwire: {empty}: it is empty\n")
    code, _, err = decode(capsys, tmp_path)
    assert (code, "is a folder; name the files in it, or read new files with -f" in err) == (2, True)
