"""``kwire conformance``: notes about captures."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.captures.capture_files import CAPTURES
from tests.support.cli.commands import Capsys, run_kwire

SHARE = CAPTURES / "mock_share.pcapng"


def test_notes_are_printed_one_per_line_and_change_the_exit_code(capsys: Capsys) -> None:
    code, lines, errors = run_kwire(capsys, "conformance", SHARE)

    assert (code, len(lines), errors) == (1, 2, "")
    assert lines[0].startswith("17:48:32.907 info group-left-without-leave: closed its connections as member ")
    assert "(client 'demo-crash', 127.0.0.1:47246>127.0.0.1:42475, packet 247; KIP-848" in lines[0]


def test_a_capture_without_notes_is_a_success(capsys: Capsys) -> None:
    assert run_kwire(capsys, "conformance", CAPTURES / "small_ck.pcap", CAPTURES / "small_kpy.pcap") == (0, [], "")


def test_rules_and_clients_can_be_selected(capsys: Capsys) -> None:
    ignore = ("--ignore", "group-left-without-leave", "--ignore", "share-session-left-open")

    assert run_kwire(capsys, "conformance", SHARE, *ignore)[0] == 0
    assert run_kwire(capsys, "conformance", SHARE, "--client-id", "other")[0] == 0
    assert len(run_kwire(capsys, "conformance", SHARE, "--client-id", "demo-crash")[1]) == 2


def test_jsonl_has_every_field_of_a_note(capsys: Capsys) -> None:
    _, lines, _ = run_kwire(capsys, "conformance", SHARE, CAPTURES / "small_ck.pcap", "--format", "jsonl")
    note = json.loads(lines[0])

    assert note["file"] == str(SHARE)
    assert (note["rule"], note["level"], note["packets"], note["client"]) == (
        *("group-left-without-leave", "info", [247], "127.0.0.1:47246"),
    )


def test_what_cannot_be_read_is_said(capsys: Capsys, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("no capture", encoding="utf-8")
    encrypted = run_kwire(capsys, "conformance", CAPTURES / "small_tlskey.pcap")

    assert encrypted[:2] == (1, [])
    assert "the connection speaks TLS; its content cannot be read (2 times)" in encrypted[2]
    assert run_kwire(capsys, "conformance", path)[0] == 1
    assert "did you mean 'throttle-ignored'" in run_kwire(capsys, "conformance", SHARE, "--ignore", "throttle")[2]


def test_the_keys_of_tls_connections_are_used(capsys: Capsys) -> None:
    keys = CAPTURES / "small_tlskey.keys"

    assert run_kwire(capsys, "conformance", CAPTURES / "small_tlskey.pcap", "--tls-keylog", keys) == (0, [], "")
