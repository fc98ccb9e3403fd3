"""The command that reads random mutations of captures: it repeats a capture, and reports what is wrong."""

from __future__ import annotations

import random

import pytest

from kwire.capture.model import Row
from tests.kwire.capture import mutations
from tests.support.capture_model import pipeline
from tests.support.captures.mutated_captures import FILE_DAMAGE, PACKET_DAMAGE, mutate_capture


@pytest.mark.slow
def test_random_mutations_are_read_without_a_violation(capsys: pytest.CaptureFixture[str]) -> None:
    assert mutations.main(["--captures", "60", "--seed", "27", "--jobs", "1"]) == 0
    assert "60 captures, seed 27: 0 violations" in capsys.readouterr().out


def test_a_number_gives_the_same_capture_again() -> None:
    one, other = (mutate_capture(random.Random("7/12")) for _ in range(2))

    assert one == other


def test_every_kind_of_damage_is_chosen() -> None:
    labels = ", ".join(mutate_capture(random.Random(f"7/{number}")).label for number in range(200))

    assert [kind for kind in (*PACKET_DAMAGE, *FILE_DAMAGE) if kind not in labels] == []


def test_rows_that_differ_and_errors_are_violations(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_nothing(*_: object) -> list[Row]:
        return []

    def fail(*_: object) -> list[Row]:
        raise IndexError("a place that is not there")

    numbers = range(20)
    monkeypatch.setattr(pipeline, "read_rows", read_nothing)
    assert any("differ" in each for each in mutations.check_numbers(7, numbers, float("inf")).violations)
    monkeypatch.setattr(mutations, "read_batches", fail)
    failed = mutations.check_numbers(7, numbers, float("inf")).violations
    assert any("--seed 7 --only 0 (" in each and "IndexError: a place that is not there" in each for each in failed)
