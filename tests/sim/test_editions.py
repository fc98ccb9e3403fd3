"""The simulator in every edition of KIP-932: its clients speak the edition's messages, and no invariant breaks."""

from __future__ import annotations

import pytest

from kwire.registry import DEFAULT_EDITION, EDITIONS
from mockbroker.config_keys import Scope
from mockbroker.sim.__main__ import main
from mockbroker.sim.coverage import Coverage
from mockbroker.sim.world import World, run

SEEDS = 15
STEPS = 150


@pytest.mark.parametrize("edition", [each for each in EDITIONS if each != DEFAULT_EDITION])
def test_no_invariant_breaks_in_an_edition(edition: str) -> None:
    met = Coverage()
    for seed in range(SEEDS):
        met.add(run(seed, steps=STEPS, edition=edition).coverage)

    assert met.counts["start moved"]
    assert met.counts["delivered again"]
    assert met.counts["acknowledgement refused"]
    assert met.counts["config changed"]
    assert "offsets described" in met.absent or met.counts["offsets described"]


def test_no_invariant_breaks_where_the_released_rules_keep_state_in_control_records() -> None:
    met = Coverage()
    for seed in range(SEEDS):
        met.add(run(seed, steps=STEPS, persister="control-records").coverage)

    assert met.counts["start moved"]
    assert met.counts["loaded again"]
    assert met.counts["offsets altered"]


def test_the_command_plays_the_persister_that_it_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["--share-persister", "control-records"]):
        assert main(["--seed", "1", "--steps", "40", *arguments]) == 0

    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("seed 1: ")]
    assert len(set(told)) == 2


@pytest.mark.parametrize(
    ("edition", "names"),
    [
        ("4.3", ["group.share.record.lock.duration.ms", "share.record.lock.duration.ms"]),
        ("kip932-r1", ["share.record.lock.duration.ms", "record.lock.duration.ms"]),
        ("kip932-r5", ["group.share.record.lock.duration.ms", "record.lock.duration.ms"]),
    ],
)
def test_configurations_have_the_names_of_the_edition(edition: str, names: list[str]) -> None:
    world = World(1, edition)

    assert [
        world.config_name(Scope.BROKER, "group.share.record.lock.duration.ms"),
        world.config_name(Scope.GROUP, "share.record.lock.duration.ms"),
    ] == names
    assert world.core.state.config["group.share.record.lock.duration.ms"] == 5_000


def test_the_same_seed_gives_other_bytes_in_another_edition() -> None:
    digests = {run(3, steps=40, edition=edition).wire.digest for edition in ("4.3", "kip932-r3", "kip932-r4")}

    assert len(digests) == 3


def test_what_an_edition_does_not_have_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--share-edition", "4.0-early-access", "--seed", "1", "--steps", "40"]) == 0

    line = capsys.readouterr().out.splitlines()[-1]
    _, _, absent = line.partition("; not in this edition: ")
    assert absent == (
        "lock renewed, delivered in record_limit, offsets described, offsets altered, offsets deleted, "
        "ACQUIRED-DROP, archived by compaction, gap window opened, state read"
    )
