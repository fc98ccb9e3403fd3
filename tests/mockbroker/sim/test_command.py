"""The command `python -m mockbroker.sim` in a process that goes on afterwards."""

from __future__ import annotations

import logging

import pytest

from mockbroker.sim.__main__ import main
from mockbroker.sim.simulation import Simulation
from mockbroker.sim.violation import Violation


@pytest.mark.parametrize("disabled", [logging.NOTSET, logging.INFO])
def test_the_log_of_the_process_is_as_before(disabled: int) -> None:
    logging.disable(disabled)
    try:
        assert main(["--seed", "1", "--steps", "10"]) == 0
        assert logging.root.manager.disable == disabled
    finally:
        logging.disable(logging.NOTSET)


def test_several_jobs_write_what_one_writes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "3", "--steps", "10"]) == 0
    alone = capsys.readouterr()
    assert main(["--seeds", "3", "--steps", "10", "--jobs", "2"]) == 0

    assert capsys.readouterr() == alone


def test_the_first_seed_that_fails_is_printed_with_its_steps_for_any_number_of_jobs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Simulation) -> str:
        raise Violation("planted")

    monkeypatch.setattr(Simulation, "step", fail)

    for jobs in ("1", "2"):
        assert main(["--first", "7", "--seeds", "3", "--jobs", jobs]) == 1
        output = capsys.readouterr()
        assert "seed 7, step 1: Violation: planted\nagain: python -m mockbroker.sim --seed 7 " in output.out
        assert "Violation: planted" in output.err
