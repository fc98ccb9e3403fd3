"""The line of counts that the simulator prints."""

from __future__ import annotations

import pytest

from mockbroker.sim.__main__ import main
from mockbroker.sim.simulation import run


def test_coverage_lists_what_an_edition_does_not_have(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--share-edition", "4.0-early-access", "--seed", "1", "--steps", "40"]) == 0

    line = capsys.readouterr().out.splitlines()[-1]
    _, _, absent = line.partition("; not in this edition: ")
    assert absent == (
        "lock renewed, delivered in record_limit, offsets described, offsets altered, offsets deleted, "
        "ACQUIRED-DROP, archived by compaction, gap window opened, state read"
    )


def test_what_is_only_excused_need_not_occur() -> None:
    coverage = run(1, steps=1).coverage

    assert coverage.counts["dead letter left out"] == 0
    assert "dead letter left out" not in coverage.missing()
    assert "dead-lettered" in coverage.missing()
