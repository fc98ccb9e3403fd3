"""`--unpacked-max` of each command that reads captures."""

from __future__ import annotations

import gzip
import struct
import sys
from pathlib import Path

import pytest

from kwire.cli.main import main
from mockbroker.replay import command as replay_command
from tests.support.cli.commands import TerminalStream


@pytest.fixture
def bomb(tmp_path: Path) -> Path:
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    path = tmp_path / "bomb.pcap.gz"
    path.write_bytes(gzip.compress(head + struct.pack("<IIII", 1, 1, 0, 0) * (1 << 17)))
    return path


@pytest.mark.parametrize("name", ["decode", "info", "conformance"])
def test_reading_ends_at_the_limit(name: str, bomb: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([name, str(bomb), "--unpacked-max", "1M"])
    written = capsys.readouterr()

    assert "unpacks to more than 1048576 bytes, the limit that was set" in written.out + written.err


def test_a_replay_has_the_limit(bomb: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = replay_command.main([str(bomb), "--to", "127.0.0.1:1", "--unpacked-max", "1M"])

    assert code == 2
    assert "the limit that was set" in capsys.readouterr().err


def test_a_wrong_size_is_refused(bomb: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(bomb), "--unpacked-max", "much"]) == 2
    assert "'much': expected a size above 0, as 512M or 4G" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["decode", "info", "conformance"])
def test_a_small_compressed_file_shows_what_was_unpacked(
    name: str, bomb: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("kwire.cli.progress._QUIET_SECONDS", 0.0)
    screen = TerminalStream()
    monkeypatch.setattr(sys, "stderr", screen)
    main([name, str(bomb)])

    assert " MB unpacked  bomb.pcap.gz" in screen.getvalue()
