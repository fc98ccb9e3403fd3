"""The rules of share groups in Apache Kafka, by the numbers that tests and comments cite."""

from __future__ import annotations

from typing import NamedTuple


class Rule(NamedTuple):
    """One rule: its number in "share-semantics", its subject and its text."""

    number: str
    title: str
    text: str


#: The chapters of the rules.
CHAPTERS = {
    "0": "Feature",
    "1": "Delivery: states, counts, locks, limits",
    "2": "Share partitions",
    "3": "Acknowledgements",
    "4": "Share sessions",
    "5": "Groups and heartbeats",
    "6": "Administration",
    "7": "Share coordinator and persister",
    "8": "Configuration",
    "9": "Dead-letter queues, of Kafka 4.4.0 with share.version 2 (KIP-1191)",
    "10": "Editions",
}

RULES = (
    Rule("0", "Switch", "With the feature share.version at 0, every share API except the state RPCs answers 35."),
    Rule("1.1", "States", "A record is available, acquired, acknowledged or archived; the last two are final."),
    Rule("1.2", "Delivery count", "Only acquisitions change it, by one; at the limit a release archives the record."),
    Rule("1.3", "Lock", "An acquisition expires after the lock duration that was in effect when it started."),
    Rule("1.4", "Renewal", "Type 4 restarts the lock, in version 2, with IsRenewAck, if the group allows it."),
    Rule(
        "1.5", "Throttling", "Near the delivery limit fewer records are delivered at a time, at the last attempt one."
    ),
    Rule(
        "1.6",
        "Acquire modes",
        "batch_optimized acquires whole record batches, record_limit exactly the requested number.",
    ),
    Rule("1.7", "Waiting", "MinBytes, MaxBytes, MaxWaitMs; the session epoch rotates the partitions."),
    Rule("2.1", "Loading", "The first fetch reads the stored state, and resolves the reset policy after that."),
    Rule("2.2", "Next offset", "Released records are delivered before new ones."),
    Rule("2.3", "Acquiring", "Cached available records are acquired first, then the other records that were read."),
    Rule("2.4", "Splitting", "A batch is tracked as a whole until it is split, and is never merged again."),
    Rule("2.5", "Gap window", "Gaps in the stored state can be acquired until newer records have been."),
    Rule("2.6", "In-flight limit", "It bounds the distance from start to end offset, not the number of records."),
    Rule("2.7", "Compaction", "Available records that the log no longer holds are archived."),
    Rule("2.8", "Start offset", "It moves past records in a final state only, after their write."),
    Rule("2.9", "Log start", "When the log start offset advances, the start offset follows."),
    Rule("2.10", "Read committed", "Aborted records are acquired, then archived without delivery."),
    Rule("2.11", "Fencing", "A former leader drops its share partitions."),
    Rule("2.12", "Writes", "A write contains the start offset from before its change."),
    Rule("3.1", "Form", "A malformed acknowledgement fails its whole partition with 42."),
    Rule("3.2", "State", "The member must have acquired the record, otherwise 121; past the end offset 42."),
    Rule("3.3", "All or nothing", "One invalid batch rolls back the whole partition; so does a failed write."),
    Rule("3.4", "Responses", "The rows of a response, and acknowledgements in fetches."),
    Rule("3.5", "A worked sequence", "Eleven steps with all error codes."),
    Rule("4.1", "Epochs", "Every accepted request consumes the session epoch."),
    Rule("4.2", "Order of checks", "Which checks fail before the epoch is consumed, and which after."),
    Rule("4.3", "Sessions", "Opening, continuing, closing; 122, 123 and 133."),
    Rule("4.4", "Partitions", "Added and forgotten partitions, and unknown topic ids."),
    Rule("4.5", "Rows", "Which partitions a response contains."),
    Rule("4.6", "Leaving", "A session that is closed, or loses its connection, releases its acquired records."),
    Rule("4.7", "A worked session", "Eight consecutive requests."),
    Rule("5.1", "Heartbeat checks", "The order of the checks, and their error codes."),
    Rule("5.2", "Heartbeat work", "What increments the group epoch, and when an assignment is computed."),
    Rule("5.3", "Epoch timeline", "The first member of a new group has epoch 2 and no partitions yet."),
    Rule("5.4", "Leaving", "Leaving and expiry increment the epoch; other members learn of it by later heartbeats."),
    Rule("5.5", "States", "Empty without members, otherwise stable; only DeleteGroups removes a group."),
    Rule("5.6", "Other types", "The answers of other APIs about a share group."),
    Rule("5.7", "Initialisation", "Partitions are assigned only after their state has been initialised."),
    Rule("5.8", "Records", "Members, epochs, assignments and states are records in __consumer_offsets."),
    Rule("5.9", "Assignor", "The number of partitions of each member."),
    Rule("6.1", "Describe", "ShareGroupDescribe: rows and error codes."),
    Rule("6.2", "List", "ListGroups with types and states."),
    Rule("6.3", "Describe offsets", "Start offset and lag as stored; errors are hidden."),
    Rule("6.4", "Alter offsets", "Only in an empty group, with the group's epoch as state epoch."),
    Rule("6.5", "Delete offsets", "By topic; deleted state is initialised again."),
    Rule("6.6", "Delete groups", "First the state, then the group."),
    Rule("6.7", "Group configurations", "IncrementalAlterConfigs and DescribeConfigs of a group."),
    Rule("7.1", "Finding a coordinator", "FindCoordinator with keys group:topicId:partition."),
    Rule("7.2", "Records", "When state is written as a snapshot, and when as an update."),
    Rule("7.3", "State RPCs", "The checks of each of the five RPCs, in order."),
    Rule("7.4", "Merging", "How stored and new batches are merged."),
    Rule("7.5", "Housekeeping", "Cold snapshots, pruning, loading."),
    Rule("7.6", "Persister", "Retries and back-off."),
    Rule("8.1", "Configurations of the coordinator", "The broker's values for members, sessions and assignments."),
    Rule("8.2", "Configurations of leaders", "The broker's values for deliveries, locks and sessions."),
    Rule("8.3", "Configurations of the share coordinator", "Its topic, its snapshots, its intervals."),
    Rule("8.4", "Group configurations", "Defaults, ranges, the broker's bounds and cross-checks."),
    Rule("8.5", "Feature", "share.version is a feature of the cluster, which ApiVersions returns."),
    Rule(
        "9.1",
        "Which records",
        "In a group with errors.deadletterqueue.topic.name, rejected records, and those that are released, expire or"
        " lose their session at the delivery limit. They are archiving once that is stored, archived when the queue has"
        " answered, and the start offset passes them after that write. Gaps, and records that compaction, an aborted"
        " transaction or the log start removes, do not go to the queue.",
    ),
    Rule(
        "9.2",
        "The record written",
        "One for each offset, with the time of the write and the headers __dlq.errors.topic, .partition, .offset,"
        " .group, .delivery.count and .message, into the source partition's index modulo the number of partitions. With"
        " errors.deadletterqueue.copy.record.enable it has key and value of the original, but not its headers; records"
        " that are gone, or larger than the queue's max.message.bytes, are not copied. Batches hold as much as fits"
        " into max.message.bytes.",
    ),
    Rule(
        "9.3",
        "Failures",
        "A record is archived even if the queue has not taken it: its topic is missing and may not be created, is not"
        " enabled, has not the prefix, is too small for the batch, refuses it, or is not writable for the broker. Only"
        " a lost connection, a missing leader and NOT_LEADER_OR_FOLLOWER are retried, five times, after 2, 4, 8 and 16"
        " seconds.",
    ),
    Rule(
        "9.4",
        "Configurations",
        "errors.deadletterqueue.topic.name must not begin with __; prefix and creation of queues can be changed while"
        " the broker runs; without share.version 2 they have no effect.",
    ),
    Rule(
        "9.5",
        "Resuming",
        "A leader that loads records in the state archiving sends them to the queue, again if need be: a move of the"
        " leader may write a dead letter twice. At the delivery limit their reason is the limit, else the rejection.",
    ),
    Rule(
        "9.6",
        "Transactions, log start, administration",
        "Dead letters belong to no transaction. Altered offsets deliver records again that have a dead letter; the"
        " deletion of a group keeps its configuration and its queue.",
    ),
    Rule("10", "Editions", "Where drafts and early releases differ, the behaviour is that of the release."),
)

#: Scenarios of tests/nodes, recorded with three real brokers, by the rules that they show.
SCENARIOS: dict[str, tuple[str, ...]] = {
    "2.9": ("the_start_is_beyond_the_end",),
    "2.11": (
        "a_leader_dies_under_a_share_session",
        "a_leader_moves_under_a_share_session",
        "a_topic_goes_under_a_share_session",
        "a_topic_is_made_again_under_a_share_session",
        "delivered_records_are_lost",
    ),
    "1.7": ("deliveries_stop_at_the_high_watermark",),
    "3.3": ("state_cannot_be_written",),
    "4.4": ("a_topic_grows_under_a_share_session",),
    "5.1": ("the_coordinator_dies_under_a_share_group",),
    "5.7": ("a_topic_grows_under_a_share_session",),
    "6.3": ("offsets_are_described_while_a_leader_is_dead",),
    "7.5": ("state_that_the_next_coordinator_lacks",),
    "7.6": ("state_cannot_be_written", "the_coordinator_dies_under_a_share_group"),
    "9.3": (
        "dead_letters_follow_the_leader_of_their_queue",
        "the_share_coordinator_moves_while_dead_letters_wait",
        "a_rejection_is_not_stored_before_its_lock_ends",
    ),
    "9.5": ("a_leader_moves_while_dead_letters_wait",),
}

#: Records that a real broker wrote, and that tests compare with those of mockbroker.
RECORDS: dict[str, str] = {"5.8": "tests/mockbroker/coordinators/group/group_records_4.4.jsonl"}

#: Parts of a rule that requests cannot provoke, and the reason.
UNVERIFIED: dict[str, str] = {
    "1.3": "a lock that expires while its acknowledgement is being written: the moment cannot be chosen from outside",
    "4.1": "the epoch after 2147483647: it takes as many requests",
    "4.5": "a partition whose fetch lock is held: the moment cannot be chosen from outside",
    "7.6": "the jitter of the pauses, and how requests between brokers are combined",
}
