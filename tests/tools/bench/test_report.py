"""The benchmark of `kwire report`."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from tools.bench import report
from tools.bench.report import CASES, Measured, Round


def test_each_case_has_its_wall_and_cpu_seconds_in_the_history() -> None:
    measured = [
        Measured(case, case.size, 1, [Round(10.0 + index, 20.0) for index in range(case.rounds)]) for case in CASES
    ]

    results = report.results_of(measured)

    assert [(result.case, result.unit, result.median) for result in results] == [
        ("100 MB, small packets, wall", "s", 11.0),
        ("100 MB, small packets, CPU", "s", 20.0),
        ("100 MB, wall", "s", 11.0),
        ("100 MB, CPU", "s", 20.0),
        ("1 GB, wall", "s", 10.0),
        ("1 GB, CPU", "s", 20.0),
    ]
    assert "| 1 GB | 1,000 MB | 0.00 M | 60 s | 10.0 [10.0 … 10.0] s |" in report.render_section(measured)


def test_nothing_is_measured_without_enough_disk_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=1))

    assert report.main(["--dry-run", "--folder", str(tmp_path)]) == 1

    assert "needs 4 GB of disk" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
