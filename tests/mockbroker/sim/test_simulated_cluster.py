"""The simulated cluster has the configurations of its edition."""

from __future__ import annotations

import pytest

from mockbroker.config.keys import Scope
from mockbroker.sim.simulated_cluster import SimulatedCluster
from mockbroker.sim.violation import Violation


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


def test_deadlines_that_always_set_the_next_one_are_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = SimulatedCluster(1)
    channel = cluster.core.state.inter_broker
    monkeypatch.setattr(cluster, "check", lambda: channel.schedule(0, lambda now_ms: None, now_ms=cluster.now_ms))

    with pytest.raises(Violation, match="3001 deadlines in turn at 1000000 ms, and another one at 1000000 ms"):
        cluster.advance(0)
