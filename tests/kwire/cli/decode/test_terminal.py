"""`kwire decode` on a terminal and with a pipe: colours, progress, and Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from kwire.cli.terminal import text_width
from tests.support.captures.capture_files import SHARE, build_pcap, read_ip_packets
from tests.support.captures.tls_captures import record_tls_capture
from tests.support.cli.pseudo_terminal import ROOT, Terminal, without_colours

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "kwire.cli.main", "decode"]


def in_terminal(*words: object, columns: int = 120, environment: dict[str, str] | None = None) -> tuple[int, str]:
    return Terminal("decode", *map(str, words), columns=columns, environment=environment).finish()


def run_piped(*words: object) -> str:
    return subprocess.run([*COMMAND, *map(str, words)], capture_output=True, text=True, cwd=ROOT, check=True).stdout


def test_a_terminal_gets_colours_and_a_summary_line() -> None:
    code, text = in_terminal(SHARE)

    assert code == 0
    lines = text.splitlines()
    assert len(lines) == 46
    assert without_colours(lines[0]).split() == ["TIME", "CONNECTION", "API", "LATENCY", "RESULT", "SUMMARY"]
    assert [line for line in lines if "\x1b[1;31mTOPIC_ALREADY_EX" in line]
    assert without_colours(lines[-1]).startswith("44 exchanges; 44 rows shown, 2 with an error; ")


@pytest.mark.parametrize("columns", [40, 80, 120, 200])
@pytest.mark.parametrize("level", ["messages", "share_acks", "packets"])
def test_no_line_is_wider_than_the_terminal(columns: int, level: str) -> None:
    _, text = in_terminal(SHARE, "--level", level, columns=columns)

    lines = [without_colours(line) for line in text.splitlines()[:-1]]
    assert len(lines) > 1
    assert max(map(text_width, lines)) <= columns


def test_a_wide_terminal_shows_what_a_pipe_gets() -> None:
    _, text = in_terminal(SHARE, columns=400)

    assert without_colours(text).splitlines()[:-1] == run_piped(SHARE).splitlines()


@pytest.mark.parametrize("form", ["table", "tree"])
def test_no_color_removes_only_colours(form: str) -> None:
    _, coloured = in_terminal(SHARE, "--format", form, "--limit", 3, columns=90)
    _, plain = in_terminal(SHARE, "--format", form, "--limit", 3, columns=90, environment={"NO_COLOR": "1"})

    assert "\x1b" in coloured
    assert "\x1b" not in plain
    assert without_colours(coloured).splitlines()[:-1] == plain.splitlines()[:-1]


def test_a_pipe_gets_colours_only_on_request() -> None:
    assert "\x1b" not in run_piped(SHARE)
    coloured = run_piped(SHARE, "--color", "always")
    assert "\x1b[1;31m" in coloured
    assert without_colours(coloured) == run_piped(SHARE)


def test_slow_responses_are_marked_and_long_polls_are_not() -> None:
    text = run_piped(SHARE, "--color", "always", "--slow", "20ms")
    marked = [line for line in text.splitlines() if "\x1b[1;33m" in line]

    # ShareFetch took 24.7 ms, and was allowed 500.
    assert {without_colours(line).split()[2] for line in marked} == {"CreateTopics", "Produce"}


def long_capture(path: Path, times: int) -> Path:
    """The connections of a capture repeated, each time with other addresses."""
    wires = read_ip_packets()
    parts = [build_pcap(wires)]
    for number in range(1, times):
        address = bytes((10, 0, number >> 8, number & 0xFF))
        copies = [wire._replace(data=wire.data[:12] + address * 2 + wire.data[20:]) for wire in wires]
        parts.append(build_pcap(copies)[24:])
    path.write_bytes(b"".join(parts))
    return path


def test_a_large_file_shows_progress_and_removes_it(tmp_path: Path) -> None:
    long = long_capture(tmp_path / "long.pcap", 25)
    with (tmp_path / "rows").open("wb") as rows:
        # Trees are slow, so that progress is shown.
        code, text = Terminal("decode", str(long), "--format", "tree", stdout=rows.fileno()).finish()

    assert code == 0
    assert "%" in text
    assert "long.pcap" in text
    # After the last progress line there is only the summary line.
    assert without_colours(text.rpartition("\r\x1b[K")[2]).startswith("1100 exchanges; 1100 rows shown, ")


def test_ctrl_c_prints_the_rows_read_and_removes_progress(tmp_path: Path) -> None:
    terminal = Terminal("decode", str(long_capture(tmp_path / "long.pcap", 600)))
    terminal.read_until("ApiVersions")
    terminal.process.send_signal(signal.SIGINT)
    code, text = terminal.finish()

    assert code == 130
    assert "Traceback" not in text
    assert "long.pcap: interrupted; rows read until then are shown" in text
    shown = re.search(r"(\d+) rows shown", text)
    assert shown
    assert 500 <= int(shown[1]) < 600 * 44
    # An incomplete last line is removed.
    assert text.endswith("\x1b[0m\n")


def test_a_closed_pipe_ends_the_command_silently(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{' '.join(COMMAND)} {SHARE} --format tree | head -n 1; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )

    assert done.stdout.splitlines()[1] == "141"
    assert done.stderr == ""


def test_a_pipe_shows_rows_as_they_complete() -> None:
    data = SHARE.read_bytes()
    with subprocess.Popen(
        [*COMMAND, "-", "--format", "jsonl"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(data[:3_000])
        process.stdin.flush()
        first = process.stdout.readline()
        process.stdin.write(data[3_000:])
        process.stdin.close()
        rest = process.stdout.read().splitlines()

    assert b'"api_name":"ApiVersions"' in first
    assert len(rest) == 43


def test_ctrl_c_ends_a_followed_file_with_all_rows(tmp_path: Path) -> None:
    growing = tmp_path / "growing.pcap"
    data = SHARE.read_bytes()
    growing.write_bytes(data[:20_000])
    terminal = Terminal("decode", "--follow", str(growing), columns=200)
    terminal.read_until("ApiVersions")
    with growing.open("ab") as file:
        file.write(data[20_000:])
    # All rows are printed after the last packet, except those that wait for the end of their connection.
    terminal.read_until("127.0.0.1:21092", times=40)
    terminal.process.send_signal(signal.SIGINT)
    code, text = terminal.finish()

    assert code == 0
    assert without_colours(text).splitlines()[-1].startswith("44 exchanges; 44 rows shown, 2 with an error")
    assert "interrupted" not in text


def test_a_followed_file_may_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "now.pcap"
    wires = read_ip_packets()
    path.write_bytes(build_pcap(wires[:60]))
    terminal = Terminal("decode", "-f", str(path), "--format", "jsonl")
    terminal.read_until("InitProducerId")
    path.rename(tmp_path / "now.pcap.1")
    part = tmp_path / "part"
    part.write_bytes(build_pcap(wires[60:], nanoseconds=True))
    part.rename(path)
    terminal.read_until('"status":"ok"', times=40)
    os.kill(terminal.process.pid, signal.SIGTERM)
    code, text = terminal.finish()

    assert code == 0
    assert text.count('"status":"ok"') == 44


def test_a_folder_of_captures_is_followed_from_file_to_file(tmp_path: Path) -> None:
    wires = read_ip_packets()
    first, second = tmp_path / "a.pcap", tmp_path / "b.pcap1"
    first.write_bytes(build_pcap(wires[:60]))
    os.utime(first, (1, 1))
    second.write_bytes(build_pcap(wires[60:]))
    os.utime(second, (2, 2))
    older = tmp_path / "hidden"
    second.rename(older)
    terminal = Terminal("decode", "-f", str(tmp_path), "--format", "jsonl")
    terminal.read_until("InitProducerId")
    older.rename(second)
    terminal.read_until('"status":"ok"', times=40)
    terminal.process.send_signal(signal.SIGINT)
    code, text = terminal.finish()

    assert code == 0
    assert text.count('"status":"ok"') == 44


def test_a_key_log_that_is_missing_is_waited_for_while_following(tmp_path: Path) -> None:
    recording, keys, growing = record_tls_capture(ssl.TLSVersion.TLSv1_3), tmp_path / "keys", tmp_path / "tls.pcap"
    data = build_pcap(recording.packets)
    growing.write_bytes(data[: len(data) // 2])
    terminal = Terminal("decode", "-f", str(growing), "--format", "jsonl", "--tls-keylog", str(keys))
    terminal.read_until("it has no TLS secrets yet; waiting for them")
    keys.write_text(recording.key_log)
    with growing.open("ab") as file:
        file.write(data[len(data) // 2 :])
    terminal.read_until('"status":"ok"', times=5)
    terminal.process.send_signal(signal.SIGINT)
    code, text = terminal.finish()

    assert code == 0
    assert text.count("waiting for them") == 1


def test_following_ends_after_the_duration(tmp_path: Path) -> None:
    code, text = in_terminal("--follow", SHARE, "--duration", "2s")

    assert code == 0
    assert "44 exchanges; 44 rows shown" in text
