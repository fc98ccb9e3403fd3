"""The simulator in every edition of KIP-932: its clients use the edition's messages, and no invariant is violated."""

from __future__ import annotations

import pytest

from mockbroker.sim.__main__ import main
from mockbroker.sim.coverage import Coverage
from mockbroker.sim.simulation import run
from mockbroker.state.share.share_rules import SHARE_EDITIONS

pytestmark = pytest.mark.slow

SEEDS = 15
STEPS = 150


def _run_seeds(edition: str | None = None, persister: str = "default", release: str | None = None) -> Coverage:
    coverage = Coverage()
    for seed in range(SEEDS):
        coverage.add(run(seed, steps=STEPS, release=release, edition=edition, persister=persister).coverage)
    return coverage


@pytest.mark.parametrize("edition", SHARE_EDITIONS)
def test_no_invariant_breaks_in_an_edition(edition: str) -> None:
    coverage = _run_seeds(edition=edition)

    for name in ("start moved", "delivered again", "acknowledgement refused", "config changed", "offsets described"):
        assert coverage.counts[name] or name in coverage.absent


def test_no_invariant_breaks_with_dead_letter_queues() -> None:
    coverage = _run_seeds(release="4.4")

    for name in ("ARCHIVING-ARCHIVE", "dead-lettered", "dead letter left out", "queue changed"):
        assert coverage.counts[name], name


def test_no_invariant_breaks_where_the_released_rules_keep_state_in_control_records() -> None:
    coverage = _run_seeds(persister="control-records")

    assert all(coverage.counts[name] for name in ("start moved", "loaded again", "offsets altered"))


def test_the_command_uses_the_given_persister(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["--share-persister", "control-records"]):
        assert main(["--seed", "1", "--steps", "40", *arguments]) == 0

    digests = [line for line in capsys.readouterr().out.splitlines() if line.startswith("seed 1: ")]
    assert len(set(digests)) == 2


def test_the_same_seed_gives_other_bytes_in_another_edition() -> None:
    digests = {run(3, steps=40, edition=edition).wire.digest for edition in (None, "kip932-r3", "kip932-r4")}

    assert len(digests) == 3
