"""docs/differences.md: answers that differ from Apache Kafka's, and the defects of Kafka that are reproduced."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tools.reference import not_supported

_TESTS = Path(__file__).parents[2] / "tests"
_SCRIPTS = _TESTS / "conversations" / "scripts"
_SCENARIOS = _TESTS / "nodes" / "answers"


class Difference(NamedTuple):
    """A subject: the behaviour of Kafka, the behaviour of mockbroker, and the reason."""

    subject: str
    kafka: str
    here: str
    why: str


class Defect(NamedTuple):
    """An unintended behaviour of Kafka, and the conversations and scenarios in which real brokers show it.

    releases: those that have it.
    """

    text: str
    shown_by: tuple[str, ...]
    releases: str = "4.3, 4.4"


#: Kafka promises no order and no choice in any of these cases.
SHARE_GROUPS = (
    Difference(
        "Assignment",
        "hashes of member and topic ids decide which member gets which partition",
        "members and partitions in the order of their ids",
        "Kafka promises how many partitions each member gets, not which (5.9)",
    ),
    Difference(
        "Order of rows",
        "topics, partitions, groups and members of a response are in the order of hash tables",
        "in the order of the request, or sorted",
        "Kafka promises no order (4.5, 6.1)",
    ),
    Difference(
        "Share partitions whose state cannot be read",
        "each ShareFetch reads the state again; the row with -1 is in its response if the read fails before that is "
        "sent, else in a later one: rows come and go",
        "a read takes no time of its own, so the rows come in the same requests each time",
        "Kafka promises no order of its threads",
    ),
    Difference(
        "Byte budget",
        "the remainder of MaxBytes after the division goes to a random partition; so do single bytes",
        "to a random partition too, by the cluster's `seed`",
        "Kafka promises no choice (1.7)",
    ),
)

#: Supported subjects that differ from Kafka. Unsupported ones are in docs/not-supported.md.
OTHERS = (
    Difference(
        "Documentation of configurations",
        "Kafka's texts",
        "one sentence for each configuration",
        "the texts are written for this project",
    ),
    Difference(
        "Time of requests, for `request_percentage`",
        "of request handler and network threads; of forwarded requests on the controller as well",
        "of the handler, measured by the machine's clock; none on the simulator's virtual time",
        "network and handlers share one thread, and a test's clock may stand still",
    ),
    Difference(
        "TLS handshakes over a limit of connections",
        "begin when the connection is accepted",
        "begin at once; requests wait until the connection is accepted",
        "the client gets its first answer at the same time",
    ),
    Difference(
        "A key store without a private key",
        "served where the names of its certificates allow it: every handshake fails",
        "refused, at the start and by IncrementalAlterConfigs",
        "the cause is visible immediately",
    ),
    Difference(
        "A key store that changes at the listener between brokers",
        "refused unless a client with the previous trust store accepts it, and the other way round",
        "served: no broker connects to another by TLS",
        "messages between nodes have no sockets",
    ),
    Difference(
        "Dynamic key stores that cannot be used when a broker starts",
        "no dynamic configuration of the broker is applied",
        "the listener serves its static stores; all else is applied",
        "the cause is in the log",
    ),
    Difference(
        "A trust store that is not set, where clients are asked for certificates",
        "the authorities of the Java installation are trusted",
        "refused",
        "a test would trust certificates that it does not know",
    ),
    Difference(
        "Settings of one broker",
        "each replica of a partition has those of its own broker",
        "all replicas have those of the leader's broker; with `mockbroker.replication=real` each its own",
        "replicas share one log unless followers fetch",
    ),
    Difference(
        "Changes of brokers' configurations at the controller's listener",
        "values are not checked, and a broker ignores those that are invalid",
        "values are checked as by a broker",
        "a value without an effect would be described as if it had one",
    ),
    Difference(
        "Checks for idle producers",
        "every `producer.id.expiration.check.interval.ms` from the creation of each log on",
        "from the start of the cluster on",
        "the interval is an internal configuration",
    ),
    Difference(
        "Error messages",
        "Kafka's texts in every ErrorMessage",
        "texts with the same names and numbers; null where Kafka's are null",
        "programs should use the error code",
    ),
    Difference(
        "Ids",
        "random cluster, topic, member and producer ids",
        "random ids of the same form, by the cluster's `seed`",
        "a test can be repeated with the same ids",
    ),
    Difference(
        "Fetch of the zero topic id before others, if it waits for records",
        "no response",
        "-1, as without waiting",
        "a client would wait until its timeout",
    ),
    Difference(
        "A compressed batch of many records",
        "only its compressed size is limited",
        "above 250,000 records and headers, or 128 MiB of decompressed records: 10, whose message names "
        "`mockbroker.batch.compressed.records` or `mockbroker.batch.decompressed.bytes`",
        "13 kB can hold 20 million records, and one thread serves all clients; a Java producer splits such a batch",
    ),
    Difference(
        "Clients that do not read their responses",
        "the records stay in the files of the log",
        "above `mockbroker.queued.response.bytes` of all connections further Fetch and ShareFetch requests wait, and a "
        "client that reads nothing for 10 s meanwhile is closed",
        "responses are in memory until the system has sent them",
    ),
    Difference(
        "Produce with more than 10,000 invalid records",
        "RecordErrors has a row for each",
        "the first 10,000",
        "a batch of a few hundred bytes would be answered with megabytes",
    ),
    Difference(
        "Produce with records that are null",
        "no response, and nothing is appended",
        "87 in every row that has no other error, and nothing is appended",
        "a client would wait until its timeout",
    ),
    Difference(
        "WriteTxnMarkers with a partition listed twice in a marker, or with a marker without partitions after others",
        "no response",
        "one marker and one row for each partition",
        "a client would wait until its timeout",
    ),
    Difference(
        "AddPartitionsToTxn without transactions, from version 4",
        "no response",
        "a response without rows",
        "a client would wait until its timeout",
    ),
    Difference(
        "AlterConfigs with a duplicate resource",
        "no response",
        "42 in both rows, as in IncrementalAlterConfigs",
        "a client would wait until its timeout",
    ),
    Difference(
        "Internal topics with segments below 1 MB",
        "the broker starts, but answers COORDINATOR_NOT_AVAILABLE forever, because no topic may have such segments",
        "the broker does not start, and reports the reason",
        "the cause is visible immediately",
    ),
    Difference(
        "First use of a coordinator, also after its topic was deleted",
        "COORDINATOR_NOT_AVAILABLE while its topic is created",
        "the coordinator is available immediately, unless `mockbroker.cold.coordinators=true`",
        "a test does not have to wait",
    ),
)

DEFECTS = (
    Defect(
        "A session with an unknown topic id, or with the id of a deleted topic, fails every ShareFetch with -1 "
        "until the id is forgotten",
        ("share-session-unknown-topic-id", "share-session-topic-deleted"),
        "4.3",
    ),
    Defect(
        "With an authorizer, a ShareFetch or ShareAcknowledge about an unknown topic id is answered with -1",
        ("share-acl-unknown-topic-id",),
    ),
    Defect(
        "A partition listed twice in a first ShareFetch is answered with -1 and creates no session",
        ("share-session-duplicate-partition",),
    ),
    Defect(
        "An unknown ShareAcquireMode is answered with -1 and consumes the session epoch",
        ("share-acquire-unknown-mode",),
    ),
    Defect("BatchSize 0 adds an acquired range from 0 to -1 before the others", ("share-acquire-batch-size-zero",)),
    Defect("A negative MaxBytes is answered with -1 in each row", ("share-fetch-max-bytes-negative",)),
    Defect(
        "An acknowledgement that spans the start offset of an empty window fails the whole request with -1",
        ("share-ack-empty-cache",),
    ),
    Defect(
        "Released records do not complete a waiting ShareFetch; it completes at its deadline",
        ("share-session-disconnect-does-not-wake", "share-piggyback-release-wakes-not"),
    ),
    Defect(
        "Partitions are not served in rotation: those whose log position is not known yet come last, and "
        "each of the two groups returns a record batch beyond MaxBytes",
        ("share-fetch-rotation", "share-fetch-order-known-places"),
    ),
    Defect(
        "Aborted records count towards a strict limit, so a fetch may be empty although records follow",
        ("share-committed-strict-limit",),
    ),
    Defect(
        "A window that is full of aborted records does not advance: no more records are delivered",
        ("share-committed-window-of-aborted",),
    ),
    Defect(
        "A full window of released records that compaction has removed fails the next fetch with -1 and does "
        "not advance: no more records are delivered",
        ("share-compaction-full-window",),
    ),
    Defect(
        "When the log start has moved past acquired records, acquisition may begin below it, and the share "
        "partition may stop advancing",
        ("share-log-start-strict-limit-below", "share-log-start-past-gap-window", "share-log-start-held-then-released"),
    ),
    Defect(
        "Of overlapping stored batches, the one with more deliveries wins, even if it is older",
        ("share-state-merge-table",),
    ),
    Defect(
        "A stored batch that ends before it begins is accepted and fails every load with -1",
        ("share-load-reversed-batch",),
    ),
    Defect(
        "Any delivery state is stored, and one that does not exist fails every load with -1",
        ("share-load-unknown-states",),
    ),
    Defect(
        "A negative partition index in AlterShareGroupOffsets is answered with -1 and blocks DeleteGroups",
        ("share-offsets-alter-negative-partition",),
    ),
    Defect(
        "An alteration with the epoch of a loaded share partition is overwritten by its next write",
        ("share-offsets-alter-equal-epochs",),
        "4.3",
    ),
    Defect(
        "A loaded share partition whose state has been deleted answers acknowledgements with -1",
        ("share-state-deleted-under-session",),
    ),
    Defect(
        "After DeleteGroups a loaded share partition overwrites the state of the group's successor",
        ("share-delete-group-recreated",),
        "4.3",
    ),
    Defect(
        "The lag is negative when the start offset is beyond the end of the log",
        ("share-offsets-alter-several", "share-load-start-beyond-end"),
    ),
    Defect(
        "A partition index beyond the topic makes DescribeShareGroupOffsets take half a minute, without an error",
        ("share-persister-gives-up",),
    ),
    Defect(
        "The error rows of AlterShareGroupOffsets and DeleteShareGroupOffsets do not agree on the topic's id",
        ("share-acl-topic-read",),
    ),
    Defect(
        "A deletion of offsets whose response was lost is sent again, and deletes the state that members have "
        "initialised in the meantime: every ShareFetch is answered with -1",
        ("a_deletion_is_tried_again",),
    ),
    Defect(
        "Offsets that are deleted while an alteration is being stored leave the topic initialised without "
        "state: every ShareFetch is answered with -1",
        ("a_deletion_meets_an_alteration",),
    ),
    Defect(
        "An initialisation that is sent again after the deletion of its group fences the next group of that "
        "name, which gets no assignment while its epoch is lower",
        ("an_initialisation_comes_late",),
    ),
)

_HEAD = """<!-- Generated by `python -m tools.reference` from tools/reference/differences.py; do not edit. -->

# Differences from Apache Kafka

The responses of the broker are compared with those of Apache Kafka 4.4.0 and 4.3.0 by
[conversations](conversations.md) and by scenarios of three nodes. This page lists the known differences;
[not-supported.md](not-supported.md) lists what is missing, and [releases.md](releases.md) where 4.4 and 4.3 differ.
"""


def render_page() -> str:
    """The whole page, Markdown. Raises: ValueError for a defect that no recorded answer of a real broker shows."""
    unknown = [name for defect in DEFECTS for name in defect.shown_by if not _is_recorded(name)]
    if unknown:
        raise ValueError(f"no conversation {', '.join(unknown)}")
    lines = [_HEAD, "## Share groups", "", *_table(SHARE_GROUPS)]
    lines += ["", "## Other subjects", "", *_table(OTHERS), ""]
    lines += [
        f"{len(not_supported.NOTES)} subjects that are supported in part are in [not-supported.md](not-supported.md)."
    ]
    lines += ["", "## Defects of Kafka that are reproduced", ""]
    lines += [
        "Clients of the named releases depend on these answers, so the broker gives the same.",
        "",
        "| defect | in | shown by |",
        "|---|---|---|",
    ]
    lines += [
        f"| {defect.text} | {defect.releases} | {', '.join(f'`{name}`' for name in defect.shown_by)} |"
        for defect in DEFECTS
    ]
    return "\n".join(lines) + "\n"


def _is_recorded(name: str) -> bool:
    return (_SCRIPTS / f"{name}.expected.json").exists() or (_SCENARIOS / f"{name}.json").exists()


def _table(rows: tuple[Difference, ...]) -> list[str]:
    head = ["| subject | Kafka | mockbroker | reason |", "|---|---|---|---|"]
    return head + [f"| {row.subject} | {row.kafka} | {row.here} | {row.why} |" for row in rows]
