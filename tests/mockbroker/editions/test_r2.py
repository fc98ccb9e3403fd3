"""KIP-932 revision r2 over sockets: the walk from offset 100 to 120 and its control records."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.brokers.control_records import describe_control_records
from tests.support.brokers.draft_members import Member, describe_view, running_member
from tests.support.brokers.start_offset_walks import STATES, produce_all, run_walk

EDITION = "kip932-r2"
DELTAS = "share.coordinator.snapshot.update.records.per.snapshot"
#: The page's checkpoint prints a start and an end of 110 although its walk starts at 100: an error. It is 100 here.
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
    with running_member(EDITION, **{DELTAS: request.param}) as running:
        running.cluster.clock.freeze()
        produce_all(running)
        # The group starts at 100 in a log that ends at 130, the offset of the page's first control record.
        assert running.alter(100) == 0
        running.open_session()
        yield running


@pytest.mark.parametrize(
    ("member", "ending"),
    [("50", "137 delta 1 <136 111-112 2/2"), ("6", "137 checkpoint 2 120-120")],
    indirect=["member"],
)
def test_r2_the_walk_and_both_endings_of_its_control_records(member: Member, ending: str) -> None:
    assert run_walk(member) == STATES

    assert describe_control_records(member.cluster) == [*RECORDS, ending]


@pytest.mark.parametrize(("member", "stored"), [("50", 130), ("6", 137)], indirect=["member"])
def test_r2_a_leader_that_takes_over_after_the_walk_repeats_the_attempt_at_120(member: Member, stored: int) -> None:
    run_walk(member)
    member.cluster.kill_node(0)
    member.cluster.start_node(0)

    with Member(member.cluster, EDITION) as later:
        assert later.first_fetch() == [(120, 120, 1)]
        assert describe_view(later.view()) == "120 121 120 acquired/1"
        view = later.view()
    assert (view.checkpoint_offset, view.earliest_share_offset) == (stored, stored)


@pytest.mark.parametrize("member", ["50"], indirect=True)
def test_r2_what_was_acquired_when_the_leader_died_is_available_with_the_count_before(member: Member) -> None:
    for acknowledgement in ((100, 109, 0), (110, 110, 1), (112, 112, 0)):
        member.fetch()
        member.acknowledge(*acknowledgement)
    assert describe_view(member.view()) == "110 113 110 acquired/2, 111 acquired/1, 112 acknowledged/1"
    member.cluster.kill_node(0)
    member.cluster.start_node(0)

    with Member(member.cluster, EDITION) as later:
        assert later.fetch(wait_ms=0) == []
        assert describe_view(later.view()) == "110 113 110 available/1, 111 available/0, 112 acknowledged/1"
