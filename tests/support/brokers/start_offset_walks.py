"""The walk from offset 100 to a start offset of 120 in revisions r1 and r2."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.brokers.draft_members import ACCEPT, RELEASE, Member, describe_view

#: The share partition after each operation on the page, in the format of `describe_view`.
STATES = {
    "begin": "100 100 ",
    "fetch 100-109": "100 110 100-109 acquired/1",
    "acknowledge 100-109": "110 110 ",
    "fetch 110-119": "110 120 110-119 acquired/1",
    "release 110": "110 120 110 available/1, 111-119 acquired/1",
    "acknowledge 119": "110 120 110 available/1, 111-118 acquired/1, 119 acknowledged/1",
    "fetch 110, 120": "110 121 110 acquired/2, 111-118 acquired/1, 119 acknowledged/1, 120 acquired/1",
    "locks of 111, 112 elapse": (
        "110 121 110 acquired/2, 111-112 available/1, 113-118 acquired/1, 119 acknowledged/1, 120 acquired/1"
    ),
    "acknowledge 113-118": "110 121 110 acquired/2, 111-112 available/1, 113-119 acknowledged/1, 120 acquired/1",
    "fetch 111, 112": "110 121 110-112 acquired/2, 113-119 acknowledged/1, 120 acquired/1",
    "acknowledge 110": "111 121 111-112 acquired/2, 113-119 acknowledged/1, 120 acquired/1",
    "acknowledge 111, 112": "120 121 120 acquired/1",
}


def produce_all(member: Member) -> None:
    """Offsets 0 to 129, in batches that let each fetch of the walk take one."""
    for count in (100, 10, 3, 7, 1, 9):
        member.produce(count)


def run_walk(member: Member, after: Callable[[], None] = lambda: None) -> dict[str, str]:
    """Every operation of the page in turn, on a frozen clock; what there is to see after each. after: asked then too.

    The share-partition has been loaded, which is what the first fetch of a session waits for.

    A fetch takes one batch here, so two of the page's take two. 110 to 112 are fetched ten seconds before the others,
    so that the locks of 111 and 112 elapse alone.
    """
    seen = {}

    def note(operation: str) -> None:
        seen[operation] = describe_view(member.view())
        after()

    note("begin")
    assert member.fetch() == [(100, 109, 1)]
    note("fetch 100-109")
    assert member.acknowledge(100, 109, ACCEPT) == 0
    note("acknowledge 100-109")
    assert member.fetch() == [(110, 112, 1)]
    member.cluster.clock.advance(10_000)
    assert member.fetch() == [(113, 119, 1)]
    note("fetch 110-119")
    assert member.acknowledge(110, 110, RELEASE) == 0
    note("release 110")
    assert member.acknowledge(119, 119, ACCEPT) == 0
    note("acknowledge 119")
    assert member.fetch() + member.fetch() == [(110, 110, 2), (120, 120, 1)]
    note("fetch 110, 120")
    member.cluster.clock.advance(20_001)
    note("locks of 111, 112 elapse")
    assert member.acknowledge(113, 118, ACCEPT) == 0
    note("acknowledge 113-118")
    assert member.fetch() == [(111, 112, 2)]
    note("fetch 111, 112")
    assert member.acknowledge(110, 110, ACCEPT) == 0
    note("acknowledge 110")
    assert member.acknowledge(111, 112, ACCEPT) == 0
    note("acknowledge 111, 112")
    return seen
