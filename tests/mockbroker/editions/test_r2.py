"""KIP-932 as page 000 drew it, over sockets: the walk from offset 100 to 120 and the control records that it leaves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mockbroker import Cluster
from tests.mockbroker.editions.control_kit import told
from tests.mockbroker.editions.draft_kit import TOPIC, Member, shown
from tests.mockbroker.editions.walks import STATES, produce_all, walk

EDITION = "kip932-r2"
DELTAS = "share.coordinator.snapshot.update.records.per.snapshot"
#: The page's checkpoint prints a start and an end of 110 where its walk begins at 100: a slip. It is 100 here.
RECORDS = [
    "130 checkpoint 1 100-100",
    "131 delta 1 <130 100-109 2/1",
    "132 delta 1 <131 110-110 0/1",
    "133 delta 1 <132 111-118 0/0 119-119 2/1",
    "134 delta 1 <133 111-112 0/1",
    "135 delta 1 <134 113-118 2/1",
    "136 delta 1 <135 110-110 2/2",
]


@pytest.fixture
def member(request: pytest.FixtureRequest) -> Iterator[Member]:
    properties = {DELTAS: request.param}
    with (
        Cluster(share_edition=EDITION, topics={TOPIC: 1}, properties=properties) as cluster,
        Member(cluster, EDITION) as running,
    ):
        cluster.clock.freeze()
        produce_all(running)
        # The group begins at 100 in a log that ends at 130, which is where the page's first control record lies.
        assert running.alter(100) == 0
        running.join()
        assert running.fetch(wait_ms=0) == []
        yield running


@pytest.mark.parametrize(
    ("member", "ending"),
    [("50", "137 delta 1 <136 111-112 2/2"), ("6", "137 checkpoint 2 120-120")],
    indirect=["member"],
)
def test_page_000_the_walk_and_both_endings_of_its_control_records(member: Member, ending: str) -> None:
    assert walk(member) == STATES

    assert told(member.cluster) == [*RECORDS, ending]


@pytest.mark.parametrize(("member", "checkpoint_offset"), [("50", 130), ("6", 137)], indirect=["member"])
def test_page_000_a_leader_that_takes_over_after_the_walk_repeats_the_attempt_at_120(
    member: Member, checkpoint_offset: int
) -> None:
    walk(member)
    member.cluster.kill_node(0)
    member.cluster.start_node(0)

    with Member(member.cluster, EDITION) as later:
        assert later.first() == [(120, 120, 1)]
        assert shown(later.view()) == "120 121 120 acquired/1"
        view = later.view()
    assert (view.checkpoint_offset, view.earliest_share_offset) == (checkpoint_offset, checkpoint_offset)


@pytest.mark.parametrize("member", ["50"], indirect=True)
def test_page_000_what_was_acquired_when_the_leader_died_is_available_with_the_count_before(member: Member) -> None:
    member.fetch()
    member.settle(100, 109, 0)
    member.fetch()
    member.settle(110, 110, 1)
    member.fetch()
    member.settle(112, 112, 0)
    assert shown(member.view()) == "110 113 110 acquired/2, 111 acquired/1, 112 acknowledged/1"
    member.cluster.kill_node(0)
    member.cluster.start_node(0)

    with Member(member.cluster, EDITION) as later:
        assert later.fetch(wait_ms=0) == []
        assert shown(later.view()) == "110 113 110 available/1, 111 available/0, 112 acknowledged/1"
