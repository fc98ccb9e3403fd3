"""What a scan finds: differences from the scan before it."""

from __future__ import annotations

from mockbroker import Cluster
from mockbroker.broker.node_views import NodeView, TopicView
from mockbroker.control.events.state_scan import STATE_KINDS, ChaosView, ClockView, FaultView, Gone, StateScan


def test_each_difference_is_one_event() -> None:
    with Cluster(nodes=2, topics=["orders"]) as cluster:
        scan = StateScan()

        def changes() -> list[tuple[str, object]]:
            found = cluster.run(lambda server: list(scan.find_changes(server, STATE_KINDS)))
            return [(event.kind, event.payload) for event in found]

        assert changes() == []
        assert changes() == []
        cluster.stop_node(1)
        cluster.create_topic("later")
        cluster.faults.add("Produce", drop="close", name="f")
        cluster.clock.freeze()
        found = dict(changes())
        cluster.delete_topic("later")
        cluster.faults.clear()

        assert isinstance(found["node"], NodeView)
        assert (found["node"].node_id, found["node"].state) == (1, "down")
        assert isinstance(found["topic"], TopicView)
        assert isinstance(found["fault"], FaultView)
        assert (found["fault"].number, found["fault"].name, found["fault"].hits) == (1, "f", 0)
        assert found["clock"] == ClockView("frozen", cluster.clock.now_ms(), 0)
        assert changes() == [("fault", Gone((1,))), ("topic", Gone(("later",)))]


def test_a_running_clock_that_is_moved_and_a_profile_that_is_started_are_changes() -> None:
    with Cluster() as cluster:
        scan = StateScan()

        def changes() -> list[tuple[str, object]]:
            kinds = frozenset({"clock", "chaos"})
            return [(e.kind, e.payload) for e in cluster.run(lambda server: list(scan.find_changes(server, kinds)))]

        assert changes() == []
        cluster.clock.advance(5_000)
        assert changes() == [("clock", ClockView("running", None, 5_000))]
        assert changes() == []
        chaos = cluster.faults.start_chaos("slow-network", 7)
        numbers = tuple(fault.number for fault in chaos.faults)
        assert changes() == [("chaos", ChaosView(1, "slow-network", 7, chaos.hits, True, numbers))]
        chaos.stop()
        assert changes() == [("chaos", ChaosView(1, "slow-network", 7, chaos.hits, False, numbers))]
        cluster.faults.clear()
        assert changes() == [("chaos", Gone((1,)))]


def test_a_kind_that_was_not_looked_at_has_no_changes() -> None:
    with Cluster() as cluster:
        scan = StateScan()

        def changes(*kinds: str) -> list[str]:
            return cluster.run(lambda server: [e.kind for e in scan.find_changes(server, frozenset(kinds))])

        assert changes("node") == []
        cluster.create_topic("a")
        assert changes("node", "topic") == []
        cluster.create_topic("b")
        assert changes("topic") == ["topic"]
