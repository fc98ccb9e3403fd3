"""The simulated cluster has the configurations of its edition."""

from __future__ import annotations

import pytest

from mockbroker.config.keys import Scope
from mockbroker.sim.simulated_cluster import SimulatedCluster


@pytest.mark.parametrize(
    ("edition", "names"),
    [
        (None, ["group.share.record.lock.duration.ms", "share.record.lock.duration.ms"]),
        ("kip932-r1", ["share.record.lock.duration.ms", "record.lock.duration.ms"]),
        ("kip932-r5", ["group.share.record.lock.duration.ms", "record.lock.duration.ms"]),
    ],
)
def test_configurations_have_the_names_of_the_edition(edition: str | None, names: list[str]) -> None:
    cluster = SimulatedCluster(1, edition=edition)

    assert [
        cluster.config_name(Scope.BROKER, "group.share.record.lock.duration.ms"),
        cluster.config_name(Scope.GROUP, "share.record.lock.duration.ms"),
    ] == names
    assert cluster.core.state.config["group.share.record.lock.duration.ms"] == 5_000
