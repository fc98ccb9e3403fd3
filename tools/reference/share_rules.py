"""The rules of share groups in Apache Kafka 4.3.0, by the numbers that tests and comments name them by."""

from __future__ import annotations

from typing import NamedTuple


class Rule(NamedTuple):
    """One rule: its number in "share-semantics", what it is about, and what it says."""

    number: str
    title: str
    text: str


RULES = tuple(
    Rule(*row)
    for row in (
        ("0", "Switch", "With the feature share.version at 0 every share API answers 35, but for the state RPCs."),
        ("1.1", "States", "A record is available, acquired, acknowledged or archived; the last two are final."),
        ("1.2", "Delivery count", "It rises with each acquisition and never falls; at the limit a release archives."),
        ("1.3", "Lock", "An acquisition ends by itself after the lock duration that held when it began."),
        ("1.4", "Renewal", "Type 4 starts the lock anew, in version 2, with IsRenewAck, where the group allows it."),
        ("1.5", "Throttling", "Near the limit fewer records go out at a time, the last attempt alone."),
        ("1.6", "Acquire modes", "batch_optimized takes whole record batches, record_limit exactly as many as asked."),
        ("1.7", "Waiting", "MinBytes, MaxBytes, MaxWaitMs; partitions take turns by the session epoch."),
        ("2.1", "Loading", "The first fetch reads the stored state, and only then resolves the reset policy."),
        ("2.2", "Next offset", "What was released goes before what is new."),
        ("2.3", "Acquiring", "What is cached is delivered again first, then the rest of what was read as new."),
        ("2.4", "Splitting", "A batch is tracked as one until something splits it, and is never joined again."),
        ("2.5", "Gap window", "Holes that the stored state left may be acquired while nothing newer was."),
        ("2.6", "In-flight limit", "The span from start to end offset is bounded, not the number of records."),
        ("2.7", "Compaction", "Available records that the log no longer has are archived."),
        ("2.8", "Start offset", "It moves past finished records only, after their write."),
        ("2.9", "Log start", "When the log loses its beginning, the start offset follows."),
        ("2.10", "Read committed", "Aborted records are acquired, then archived unseen."),
        ("2.11", "Fencing", "A leader that is none any more forgets its share partitions."),
        ("2.12", "Writes", "A write carries the start offset from before the change it brings."),
        ("3.1", "Form", "An ill-formed acknowledgement refuses its whole partition with 42."),
        ("3.2", "State", "Who acknowledges must hold the record: else 121, past the end 42."),
        ("3.3", "All or nothing", "One bad batch undoes the whole partition; so does a failed write."),
        ("3.4", "Answers", "Which rows an answer has, and that fetches may carry acknowledgements."),
        ("3.5", "A worked sequence", "Eleven steps with every code."),
        ("4.1", "Epochs", "A session's epoch is used up by every accepted request."),
        ("4.2", "Order of checks", "What is refused before the epoch is used up, and what after."),
        ("4.3", "Sessions", "Opening, going on, closing; 122, 123 and 133."),
        ("4.4", "Partitions", "What is added and forgotten, and what an unknown topic id does."),
        ("4.5", "Rows", "Which partitions appear in an answer."),
        ("4.6", "Leaving", "A session that closes, or loses its connection, releases what it held."),
        ("4.7", "A worked session", "Eight requests in a row."),
        ("5.1", "Heartbeat checks", "In which order a heartbeat is refused, and with what."),
        ("5.2", "Heartbeat work", "What bumps the group epoch, and when an assignment is made."),
        ("5.3", "Epoch timeline", "The first member of a new group has epoch 2 and no partitions yet."),
        ("5.4", "Goodbye", "Leaving and expiry bump the epoch; others hear of it later."),
        ("5.5", "States", "Empty without members, stable with some; only DeleteGroups removes a group."),
        ("5.6", "Other types", "What other APIs say of a share group."),
        ("5.7", "Initialisation", "Partitions are assigned only when their state is initialised."),
        ("5.8", "Records", "Members, epochs, assignments and states are records of __consumer_offsets."),
        ("5.9", "Assignor", "How many partitions each member gets."),
        ("6.1", "Describe", "ShareGroupDescribe, its rows and codes."),
        ("6.2", "List", "ListGroups with types and states."),
        ("6.3", "Describe offsets", "Start offset and lag as stored; errors are hidden."),
        ("6.4", "Alter offsets", "Only in an empty group, with the group's epoch as state epoch."),
        ("6.5", "Delete offsets", "By topic; what is deleted is initialised anew."),
        ("6.6", "Delete groups", "State first, then the group."),
        ("6.7", "Altering them", "IncrementalAlterConfigs and DescribeConfigs of a group."),
        ("7.1", "Finding a coordinator", "FindCoordinator with keys group:topicId:partition."),
        ("7.2", "Records", "When state is kept as a snapshot and when as an update."),
        ("7.3", "State RPCs", "What each of the five checks, in order."),
        ("7.4", "Merging", "How stored and new batches become one list."),
        ("7.5", "Housekeeping", "Cold snapshots, pruning, loading."),
        ("7.6", "Persister", "Retries and back-off."),
        ("8.1", "Configurations of the coordinator", "The broker's values for members, sessions and assignments."),
        ("8.2", "Configurations of leaders", "The broker's values for deliveries, locks and sessions."),
        ("8.3", "Configurations of the share coordinator", "Its topic, its snapshots, its pace."),
        ("8.4", "Group configurations", "Defaults, ranges, the broker's bounds and cross-checks."),
        ("8.5", "Feature", "share.version is a feature of the cluster, which ApiVersions tells."),
        ("10", "Editions", "What was otherwise in drafts and early releases is as 4.3.0 has it."),
    )
)

#: Stories of tests/nodes, told of three real brokers, by the rules that they show.
STORIES: dict[str, tuple[str, ...]] = {
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
}

#: Records that a real broker wrote, and that tests hold ours against.
RECORDS: dict[str, str] = {"5.8": "tests/mockbroker/group_records.jsonl"}

#: What is left of a rule that cannot be provoked from outside, and why.
UNASKED: dict[str, str] = {
    "1.3": "a lock that ends while its acknowledgement is being written: that takes a moment of the broker's own",
    "4.1": "the epoch after 2147483647, which takes as many requests",
    "4.5": "a partition whose fetch lock is taken: that takes a moment of the broker's own",
    "7.6": "the jitter of the pauses, and how requests are gathered between brokers",
}
