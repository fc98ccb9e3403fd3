"""Rules of share groups that differ between the editions of KIP-932, as one frozen value, nested by subject.

State machines and handlers read these fields and never the name of an edition. The values of the drafts are in
`mockbroker/editions`; tools/reference builds the tables of docs/kip-932.md from the docstrings here.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kwire.error_codes import ErrorCode
from kwire.registry import EDITIONS, RELEASES, REMOVED_EDITION
from mockbroker.state.share.extensions import DeltaWriter, MarkerReader

#: The editions of share groups that a broker can serve, besides those of its release.
SHARE_EDITIONS = tuple(edition for edition in EDITIONS if edition not in {*RELEASES, REMOVED_EDITION})

#: Defaults of a broker whose leaders store the state of share partitions in their own logs: the number of deltas that
#: follow a checkpoint. KIP-932's second revision only says that checkpoints are to be frequent.
CONTROL_RECORDS_DEFAULTS = {"share.coordinator.snapshot.update.records.per.snapshot": "50"}


class GroupRules(msgspec.Struct, frozen=True):
    """Membership, heartbeats and assignment of share groups.

    config_names: the group configurations that exist; None if all of 4.3.0 do.
    epoch_bumps_on_join: by how much a joining member raises the group epoch, from 0 for a new group; 4.3.0 raises it
    for the member and once more for the metadata of the subscribed topics.
    chooses_start_on_subscription: the start offset of a topic is chosen when a group subscribes to it; else when a
    leader first receives a request for its records.
    added_partition_start: the start offset of partitions of a topic of which the group already has initialized some, or
    has begun to; -1 leaves it to the group's reset strategy.
    distributes_partitions: partitions are distributed among the members, at most once in an interval; else each member
    gets all of them.
    sends_assignment_on_subscription: a heartbeat that names topics is answered with the assignment, changed or not.
    accepts_rejoin_at_epoch_zero: a member that sends epoch 0 joins again; else its member epoch is checked as any
    other.
    validates_member_id_length: a heartbeat with an empty or too long member id is refused before all other checks.
    unknown_group_is_server_error: a heartbeat to a group that does not exist, and a description of the group with an
    empty name, end in an unknown server error.
    state_names: names of the states empty, stable, and deleted.
    expires_empty_groups: a group that has been empty for the offsets retention time, and has no stored state, is
    deleted.
    """

    config_names: frozenset[str] | None = None
    epoch_bumps_on_join: int = 2
    chooses_start_on_subscription: bool = False
    added_partition_start: int = -1
    distributes_partitions: bool = True
    sends_assignment_on_subscription: bool = True
    accepts_rejoin_at_epoch_zero: bool = True
    validates_member_id_length: bool = True
    unknown_group_is_server_error: bool = False
    state_names: tuple[str, str, str] = ("Empty", "Stable", "")
    expires_empty_groups: bool = False


class GroupRecordRules(msgspec.Struct, frozen=True):
    """Records of the group coordinator.

    lists_topics: the group has a record of the topics that it sees; else the record of its epoch holds their hash.
    writes_every_epoch: the group's record is written whenever its epoch rises; else once, to reserve the name, and the
    lists of share partitions hold the epoch.
    persists_assignments: assignments survive a change of the coordinator; else they are computed again, and a
    rejoining member supplies its own epoch.
    lists_initializing_partitions: share partitions are listed before their state is initialized as well as afterwards.
    lists_before_empty_deletion: the lists are written before a group is deleted, even if no topic has state that is
    deleted first.
    lists_partition_counts: the lists only hold how many partitions of a topic there are, so that the partitions below
    an altered one are initialized with it.
    """

    lists_topics: bool = False
    writes_every_epoch: bool = True
    persists_assignments: bool = True
    lists_initializing_partitions: bool = True
    lists_before_empty_deletion: bool = True
    lists_partition_counts: bool = False


class OffsetRules(msgspec.Struct, frozen=True):
    """Administration of share-group offsets.

    requires_group: offsets can be described and altered only of groups that exist; else altering creates a group.
    alteration_bumps_group_epoch: an alteration of offsets raises the group epoch first.
    resumes_deletions: a new coordinator continues the deletions of state that the old one had started.
    """

    requires_group: bool = False
    alteration_bumps_group_epoch: bool = False
    resumes_deletions: bool = False


class SessionRules(msgspec.Struct, frozen=True):
    """Share sessions.

    limited_by_groups: a node holds the sessions of `group.share.max.groups` groups of the greatest size, and has no
    limit of sessions as such; above it a request gets the error that it has no session at once.
    close_on_disconnect: a session ends with its connection; else it stays, and is evicted if it has been idle for
    `idle_eviction_ms` and another session needs its place.
    idle_eviction_ms: the idle time after which a session may be evicted; 0 for never.
    """

    limited_by_groups: bool = False
    close_on_disconnect: bool = True
    idle_eviction_ms: int = 0


class FetchRules(msgspec.Struct, frozen=True):
    """Reading the log for a ShareFetch.

    has_partition_max_bytes: a partition of a ShareFetch has a byte limit of its own; one with limit 0 is not fetched.
    Else the request's bytes are divided among the partitions.
    rotates_partitions: the partition that is served first changes with the session's epoch.
    returns_oversized_batch: a batch that is larger than the byte limit is read nevertheless.
    returns_all_read_records: all that was read is sent, with the beginning of the batch at the byte limit, and not only
    the batches in which something was acquired.
    max_records_config: the broker configuration that limits the records acquired by a fetch; if empty, only the request
    limits them.
    names_unknown_topics: a partition of a topic that does not exist has a row with its error in a ShareFetch; else the
    whole response is an unknown server error.
    looks_for_unwritten_releases: fetches look for records whose release is still being written, and get none of them.
    """

    has_partition_max_bytes: bool = False
    rotates_partitions: bool = True
    returns_oversized_batch: bool = True
    returns_all_read_records: bool = False
    max_records_config: str = ""
    names_unknown_topics: bool = False
    looks_for_unwritten_releases: bool = False


class AcquisitionRules(msgspec.Struct, frozen=True):
    """Acquisition of records.

    stops_at_in_flight_limit: no more is acquired than fits below the limit of records in flight; else the limit only
    decides whether anything is acquired.
    marker_reader: leaders of read-committed groups find the markers of transactions in the log, and hold records
    uncommitted in the window until then; else they use the log's index of aborted transactions.
    fetches_state_gaps: offsets that the stored state leaves out are fetched; else they are skipped.
    archives_compacted_records: records that compaction has removed are archived.
    throttles_redelivery: records that have failed often are delivered in small numbers.
    merges_runs: neighbouring offsets of the same delivery count are returned as one run.
    """

    stops_at_in_flight_limit: bool = True
    marker_reader: Callable[[], MarkerReader] | None = None
    fetches_state_gaps: bool = True
    archives_compacted_records: bool = True
    throttles_redelivery: bool = True
    merges_runs: bool = True


class AcknowledgementRules(msgspec.Struct, frozen=True):
    """Acknowledgement and release of records.

    start_advance_wakes_fetches: an advance of the start offset wakes waiting fetches.
    release_skips_other_members: the end of a session also releases the member's records that lie behind records of
    other members in the same batch.
    returns_ack_error_message: a row of a ShareFetch has the message of a refused acknowledgement.
    """

    start_advance_wakes_fetches: bool = True
    release_skips_other_members: bool = True
    returns_ack_error_message: bool = True


class StateRules(msgspec.Struct, frozen=True):
    """Stored state of share partitions: what leaders write, and how it is stored.

    initialized_before_assignment: a partition is assigned only once its state has been initialized; else as soon as it
    exists, and its state starts with its first read or write.
    managed_by_coordinator: share coordinators initialize and delete states, and summarize them.
    coordinator_is_discoverable: FindCoordinator finds the coordinator of a share partition.
    stores_delivery_complete_count: leaders store how many records at and after the start are complete.
    first_update_counts: the first update of a share partition counts toward the next snapshot.
    stores_written_epochs: a write stores the leader epoch and the state epoch that it carries.
    writes_initial_start: the start chosen by the reset strategy is written at once; else with the first acknowledged
    records.
    delta_writer: a write names the start only where it moves past all that is stored; states are written in runs, as
    far as the start does not pass them, with those of the records before them that have no stored state yet. Else it
    names the start, and all that changes.
    in_partition_log: leaders store the state of a share partition in control records of its own log; else share
    coordinators store it.
    checks_leader_epochs: share coordinators compare leader epochs, and refuse old ones.
    refuses_negative_epochs: a leader epoch or state epoch below 0 is an invalid request; else -1 is not compared.
    keeps_highest_start: a write below the stored start leaves it and the count of complete records as they are, and one
    at the stored start leaves the higher count; else the last write counts.
    merges_neighbours: stored batches of the same state and delivery count that touch become one, and one that ends
    before it begins is a server error beside others; else some neighbours remain apart.
    fences_different_state_epoch: a write of any other state epoch than the stored one is refused; else only one of a
    lower epoch.
    missing_state_error: the error where a share partition has no state.
    summarizes_missing_state: a share partition without state has a summary nevertheless.
    start_passes_completed_records: the stored start passes the completed records at it, and goes back only by an
    alteration.
    snapshots_empty_state: a change that leaves no record states is stored as a snapshot.
    snapshots_cold_state: a state that has not been written for long gets a snapshot, so that older records can be
    deleted.
    max_updates_per_snapshot: after so many updates a snapshot is written in any case; 0 leaves it to the configuration.
    compacts_state_topic: the state topic is compacted; else redundant records are deleted from its beginning.
    """

    initialized_before_assignment: bool = True
    managed_by_coordinator: bool = True
    coordinator_is_discoverable: bool = True
    stores_delivery_complete_count: bool = True
    first_update_counts: bool = True
    stores_written_epochs: bool = False
    writes_initial_start: bool = False
    delta_writer: Callable[[], DeltaWriter] | None = None
    in_partition_log: bool = False
    checks_leader_epochs: bool = True
    refuses_negative_epochs: bool = False
    keeps_highest_start: bool = False
    merges_neighbours: bool = False
    fences_different_state_epoch: bool = False
    missing_state_error: ErrorCode = ErrorCode.INVALID_REQUEST
    summarizes_missing_state: bool = True
    start_passes_completed_records: bool = False
    snapshots_empty_state: bool = False
    snapshots_cold_state: bool = True
    max_updates_per_snapshot: int = 0
    compacts_state_topic: bool = False


class DeadLetterRules(msgspec.Struct, frozen=True):
    """Dead-dead letter queues, which the level 2 of share.version enables.

    resumes_archiving: a leader that loads records in the state archiving writes them to the queue, and archives them;
    else they stay in that state.
    """

    resumes_archiving: bool = False


class ShareRules(msgspec.Struct, frozen=True):
    """All rules of an edition. The defaults are those of Apache Kafka 4.3.0; an edition sets only what differs."""

    groups: GroupRules = GroupRules()
    group_records: GroupRecordRules = GroupRecordRules()
    offsets: OffsetRules = OffsetRules()
    sessions: SessionRules = SessionRules()
    fetch: FetchRules = FetchRules()
    acquisition: AcquisitionRules = AcquisitionRules()
    acknowledgement: AcknowledgementRules = AcknowledgementRules()
    state: StateRules = StateRules()
    dead_letters: DeadLetterRules = DeadLetterRules()


#: The rules of Apache Kafka 4.3.0.
RELEASED = ShareRules()
