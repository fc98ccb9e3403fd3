"""The comparison of two runs of `mockbroker certify`."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from mockbroker.certify.results import RunRecord
from mockbroker.certify.verdicts import Verdict
from tools.certification.compare import main


def _write(run: RunRecord, path: Path) -> str:
    path.write_bytes(msgspec.json.encode(run))
    return str(path)


def test_runs_with_the_same_verdicts_agree(run: RunRecord, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = _write(run, tmp_path / "mock.json")
    run.results = run.results[2:]
    other = _write(run, tmp_path / "kafka.json")

    assert main([results, other]) == 0
    assert capsys.readouterr().out == "2 verdicts compared, 0 differences\n"


def test_a_verdict_that_differs_is_named(run: RunRecord, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = _write(run, tmp_path / "mock.json")
    run.results[0].verdict = Verdict.OK
    other = _write(run, tmp_path / "kafka.json")

    assert main([results, other]) == 1
    assert capsys.readouterr().out == "a 1: share.x.y: FAILED, there OK\n4 verdicts compared, 1 differences\n"


def test_runs_with_nothing_in_common_are_not_compared(
    run: RunRecord, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = _write(run, tmp_path / "mock.json")
    run.results = []
    other = _write(run, tmp_path / "kafka.json")

    assert main([results, other]) == 2
    assert "no client and case" in capsys.readouterr().err


def test_a_file_that_is_no_result_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.json").write_text("[]")

    assert main([str(tmp_path / "x.json"), str(tmp_path / "missing.json")]) == 2
    assert capsys.readouterr().err.startswith("results: ")
