"""The measures of the comparison have the lines that they are for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.captures.capture_files import CAPTURES
from tools.bench.compare import own_measures


def test_a_round_is_printed_as_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["own_measures", "window", str(CAPTURES)])

    own_measures.main()

    values = json.loads(capsys.readouterr().out)
    assert list(values) == ["acquire and accept, 10,000 in flight"]
    assert min(values.values()) > 0


def test_captures_are_read_at_both_levels(tmp_path: Path) -> None:
    assert list(own_measures.measure_captures(Path(CAPTURES))) == [
        "read a capture, level messages",
        "read a capture, level partitions",
    ]
    with pytest.raises(FileNotFoundError):
        own_measures.measure_captures(tmp_path)
