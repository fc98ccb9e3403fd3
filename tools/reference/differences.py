"""docs/differences.md: where the broker answers otherwise than Kafka 4.3.0, and which of its defects it has as well."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tools.reference import not_supported
from tools.reference.share_groups import scripts

_TESTS = Path(__file__).parents[2] / "tests"
_SCRIPTS = _TESTS / "conversations" / "scripts"
_STORIES = _TESTS / "nodes" / "answers"


class Difference(NamedTuple):
    """A subject, what Kafka does, what is done here, and why."""

    subject: str
    kafka: str
    here: str
    why: str


class Defect(NamedTuple):
    """A behaviour of 4.3.0 that nobody meant, and the conversations and stories in which real brokers show it."""

    what: str
    shown_by: tuple[str, ...]


#: Kafka promises no order and no choice in any of these.
SHARE_GROUPS = tuple(
    Difference(*row)
    for row in (
        (
            "Assignment",
            "which member gets which partition follows from hashes of member and topic ids",
            "members in the order of their ids, partitions in theirs",
            "Kafka promises how many partitions each member gets, not which (5.9)",
        ),
        (
            "Order of rows",
            "topics, partitions, groups and members of an answer come in the order of hash tables",
            "in the order of the request, or sorted",
            "Kafka promises none (4.5, 6.1)",
        ),
        (
            "Byte budget",
            "what is left of MaxBytes after sharing them out goes to a partition by chance; so do single bytes",
            "to a partition by chance, too, from the cluster's `seed`",
            "Kafka promises no choice (1.7)",
        ),
    )
)

#: What is served, and not quite as Kafka does it. What is not there at all has its home in docs/not-supported.md.
OTHERS = tuple(
    Difference(*row)
    for row in (
        (
            "Throttle times",
            "as quotas have it",
            "always 0",
            "[no quotas are enforced](not-supported.md)",
        ),
        (
            "Texts of errors",
            "Kafka's own, in every ErrorMessage",
            "texts of the same meaning, there and null where Kafka's are",
            "programs are to look at the code",
        ),
        (
            "Ids",
            "random cluster, topic, member and producer ids",
            "random ones of the same form, from the cluster's `seed`",
            "a test can be run again with the same ids",
        ),
        (
            "AlterConfigs that names a resource twice",
            "no answer at all",
            "42 in both rows, as IncrementalAlterConfigs has it",
            "a client would wait for nothing",
        ),
        (
            "Internal topics with segments below 1 MB",
            "the broker starts, and says COORDINATOR_NOT_AVAILABLE for ever, as no topic may have such segments",
            "the broker does not start, and says why",
            "the cause is found at once",
        ),
        (
            "First use of a coordinator",
            "COORDINATOR_NOT_AVAILABLE while its topic is made",
            "it is found at once, unless `mockbroker.cold.coordinators=true`",
            "a test need not wait",
        ),
    )
)

DEFECTS = tuple(
    Defect(*row)
    for row in (
        (
            "A session that holds an unknown topic id, or one whose topic was deleted, fails every ShareFetch with -1 "
            "until the id is forgotten",
            ("share-session-unknown-topic-id", "share-session-topic-deleted"),
        ),
        (
            "A partition listed twice in a first ShareFetch is answered with -1, and leaves no session",
            ("share-session-duplicate-partition",),
        ),
        (
            "An unknown ShareAcquireMode is answered with -1, and uses up the session's epoch",
            ("share-acquire-unknown-mode",),
        ),
        (
            "BatchSize 0 gives an acquired run from 0 to -1 in front of the others",
            ("share-acquire-batch-size-zero",),
        ),
        ("Negative MaxBytes are answered with -1 in each row", ("share-fetch-max-bytes-negative",)),
        (
            "An acknowledgement across the start offset of an empty window fails the whole request with -1",
            ("share-ack-empty-cache",),
        ),
        (
            "A waiting ShareFetch is not woken by released records, but at its deadline",
            ("share-session-disconnect-does-not-wake", "share-piggyback-release-wakes-not"),
        ),
        (
            "Partitions are not served in their turn: those whose place in the log is not known yet come last, and "
            "each of the two groups gives a record batch beyond MaxBytes",
            ("share-fetch-rotation", "share-fetch-order-known-places"),
        ),
        (
            "Aborted records count against a strict limit, so that a fetch comes back empty though records follow",
            ("share-committed-strict-limit",),
        ),
        (
            "A window that aborted records alone have filled makes no room: nothing is delivered any more",
            ("share-committed-window-of-aborted",),
        ),
        (
            "A full window of released records of which compaction has taken all fails the next fetch with -1, and "
            "stays where it is: nothing is delivered any more",
            ("share-compaction-full-window",),
        ),
        (
            "When the log start has moved past held records, acquisition may begin below it, and the share partition "
            "may stand still",
            (
                "share-log-start-strict-limit-below",
                "share-log-start-past-gap-window",
                "share-log-start-held-then-released",
            ),
        ),
        (
            "Of stored batches that overlap the one with more deliveries wins, though it is older",
            ("share-state-merge-table",),
        ),
        (
            "A stored batch that ends before it begins is accepted, and fails every load with -1",
            ("share-load-reversed-batch",),
        ),
        (
            "A negative partition index in AlterShareGroupOffsets is answered with -1, and blocks DeleteGroups",
            ("share-offsets-alter-negative-partition",),
        ),
        (
            "An alteration with the epoch that a loaded share partition has is overwritten by its next write",
            ("share-offsets-alter-equal-epochs",),
        ),
        (
            "After DeleteGroups a loaded share partition answers -1, and overwrites what a new group of its name has",
            ("share-delete-group-recreated", "share-state-deleted-under-session"),
        ),
        (
            "A lag below zero is told when the start lies beyond the end of the log",
            ("share-offsets-alter-several", "share-load-start-beyond-end"),
        ),
        (
            "A partition index beyond the topic makes DescribeShareGroupOffsets take half a minute, and is no error",
            ("share-persister-gives-up",),
        ),
        (
            "The error rows of AlterShareGroupOffsets and DeleteShareGroupOffsets do not agree on the topic's id",
            ("share-acl-topic-read",),
        ),
        (
            "A deletion of offsets whose answer did not come is sent again, and takes the state that members have had "
            "made anew meanwhile: every ShareFetch is answered with -1",
            ("a_deletion_is_tried_again",),
        ),
        (
            "Offsets that are deleted while an alteration is being stored leave the topic initialised without any "
            "state: every ShareFetch is answered with -1",
            ("a_deletion_meets_an_alteration",),
        ),
        (
            "An initialisation that is sent again after its group was deleted fences the next group of that name, "
            "which is assigned nothing while its epoch is lower",
            ("an_initialisation_comes_late",),
        ),
    )
)

_HEAD = """<!-- Generated by `python -m tools.reference` from tools/reference/differences.py; do not edit. -->

# Differences from Apache Kafka 4.3.0

What the broker answers is held against a real Kafka 4.3.0 by [conversations](conversations.md), {count} of them about
share groups, and by stories of three nodes. What is known to differ is here; [what is not there](not-supported.md)
has a page of its own.
"""


def page() -> str:
    """The whole page, Markdown.

    Raises: ValueError for a defect that no recorded answer of a real broker shows.
    """
    unknown = [name for defect in DEFECTS for name in defect.shown_by if not _is_recorded(name)]
    if unknown:
        raise ValueError(f"no conversation {', '.join(unknown)}")
    lines = [_HEAD.format(count=len(scripts())), "## Share groups", "", *_table(SHARE_GROUPS)]
    lines += ["", "## The rest", "", *_table(OTHERS), ""]
    lines += [f"{len(not_supported.NOTES)} subjects that are served in part are in [the other page](not-supported.md)."]
    lines += ["", "## Defects of 4.3.0 that are here as well", ""]
    lines += ["A client meets them in 4.3.0, so it meets them here.", "", "| what | shown by |", "|---|---|"]
    lines += [f"| {defect.what} | {', '.join(f'`{name}`' for name in defect.shown_by)} |" for defect in DEFECTS]
    return "\n".join(lines) + "\n"


def _is_recorded(name: str) -> bool:
    return (_SCRIPTS / f"{name}.expected.json").exists() or (_STORIES / f"{name}.json").exists()


def _table(rows: tuple[Difference, ...]) -> list[str]:
    head = ["| subject | Kafka | here | why |", "|---|---|---|---|"]
    return head + [f"| {row.subject} | {row.kafka} | {row.here} | {row.why} |" for row in rows]
