"""What an edition of KIP-932 decides about share groups, as one frozen value.

State machines and handlers read its fields and never an edition's name; the values are in `mockbroker/editions`.
"""

from __future__ import annotations

import msgspec

from kwire.error_codes import ErrorCode

#: The edition that everything means unless told otherwise.
RELEASED_EDITION = "4.3"

#: What a broker has where leaders keep the state of share-partitions in their own logs, and nothing else is set: so
#: many deltas build on a checkpoint. KIP-932's second revision only says that checkpoints are to be frequent.
CONTROL_RECORDS_DEFAULTS = {"share.coordinator.snapshot.update.records.per.snapshot": "50"}


class ShareRules(msgspec.Struct, frozen=True):
    """The defaults are those of Apache Kafka 4.3.0; every other edition says only what it does otherwise.

    group_configs: the names that a group can be configured by; None for all that there are.

    Groups:
    joining_bumps: how often a member that joins raises the group epoch, from 0 for a new group; 4.3.0 raises it for
    the member and once more for the metadata of what it subscribes to.
    starts_at_once: where a topic begins that a group subscribes to is chosen then; else when a leader is first asked
    for its records.
    added_partitions_start: where partitions begin that are added to a topic of which the group has some already; -1
    leaves it to the group's reset strategy.
    state_first: a partition is assigned only once its state has been initialised; else as soon as it is there, and its
    state begins with the first read or write of it.
    manages_state: share coordinators initialise and delete states, and sum them up.
    shares_out: partitions are shared out among the members, at most once in an interval; else each has them all.
    tells_on_subscribing: whoever names its topics is told its assignment, changed or not.
    finds_share_coordinators: FindCoordinator finds the coordinator of a share-partition.
    rejoins_freely: whoever comes with epoch 0 joins anew; else its member epoch is checked as any other.
    measures_member_ids: a heartbeat's member id that is empty or too long is refused before all else.
    breaks_on_unknown: a heartbeat to a group that there is not, and a description of the group without a name, end in
    an unknown server error.
    state_names: of a group that is empty, stable, and no more.
    empty_groups_die: a group that has been empty for as long as offsets are kept, and has no state anywhere, is gone.
    lists_topics: the group has a record of the topics that it sees; else that of its epoch sums them up in a hash.
    writes_each_epoch: the group's record is written whenever its epoch rises; else once, to reserve the name, and the
    lists of share-partitions tell the epoch.
    keeps_assignments: what members have survives their coordinator; else it is made anew, and who comes back as a
    member says itself at which epoch it is.
    notes_initialising: share-partitions are listed before their state is initialised as well as afterwards.
    notes_empty_deletions: the lists are written before a group is deleted, even if no topic has state that goes first.
    fills_prefixes: the lists can only tell how many partitions of a topic there are, so that what lies below an
    altered one is initialised with it.
    offsets_need_group: offsets can be described and altered of groups that there are; else altering makes one.
    altering_bumps: an alteration of offsets raises the group epoch first.
    completes_deletions: who takes a coordinator's place goes on with the deletions of state that it had begun.

    Sessions:
    sessions_by_groups: a node has room for the sessions of `group.share.max.groups` groups of the greatest size, and
    has no limit of sessions as such; who finds no room is told at once that it has no session.
    sessions_end_with_connections: else they stay, and make room when they have been idle for `session_idle_ms` and
    another one needs it.
    partitions_have_limits: a partition of a ShareFetch has a limit of bytes of its own; one without room is not
    fetched. Else the request's bytes are shared out.
    turns_about: which partition is served first changes with the session's epoch.

    Reading and acquiring:
    always_one_batch: a batch that is larger than the limit of bytes is read nevertheless.
    sends_what_was_read: all that was read is sent, with the beginning of the batch at the limit of bytes, and not only
    the batches in which something was acquired.
    fetch_limit_config: the broker's configuration that says how many records a fetch acquires at most; if there is
    none, a fetch says so itself.
    offers_unwritten: a release that is still being written lets fetches look for its records, which get none.
    window_is_strict: no more is acquired than the limit of records in flight leaves room for; else it only decides
    whether anything is.
    follows_markers: leaders of read-committed groups find the markers of transactions in the log, and keep records
    uncommitted in the window until then; else they ask the log's index of aborted transactions.
    reads_holes: what the stored state leaves out is fetched; else it is passed over.
    archives_missing: what compaction has taken is archived.
    throttles: records that have failed often are delivered in small numbers.
    joins_runs: neighbours of the same delivery count are told in one run.

    Settling:
    start_wakes: a start that has moved wakes fetches that wait.
    release_passes_others: the end of a session releases what its member holds behind records of other members in the
    same batch too.
    tells_why: a row of a ShareFetch has the message of a refused acknowledgement.
    counts_settled: leaders have it stored how many records at the start and behind it are done.
    counts_first_update: the first update of a share partition counts towards the next snapshot.
    keeps_written_epochs: a write stores the leader epoch and the state epoch that it came with.
    writes_chosen_start: where the reset strategy lets a share partition begin is written at once; else with what is
    settled first.
    writes_what_moves: a write names the start only where it moves past all that is stored; states are written in runs,
    as far as the start does not pass them, and with those of the records before them that nothing was stored of yet.
    Else it names the start, and all that changes.

    Storing:
    state_in_log: leaders keep the state of a share partition in control records of its own log; else share coordinators
    have it.
    knows_leader_epochs: share coordinators tell leaders by their epochs, and refuse old ones.
    fences_other_epochs: a write of another state epoch than the stored one is refused; else one of a lower epoch alone.
    unknown_state: the error where there is no state of a share partition.
    sums_up_unknown: such a one has a summary nevertheless.
    start_follows: the stored start passes the records at it that are done, and goes back only by an alteration.
    prefers_snapshots: a change that leaves no records' states is stored as a snapshot.
    snapshots_cold: there is a snapshot of what has not been written for long, so that what is older can be deleted.
    updates_max: after so many updates there is a snapshot in any case; 0 leaves it to the configuration.
    compacts_states: the state topic is compacted; else what is redundant is deleted from its beginning.
    """

    group_configs: frozenset[str] | None = None

    joining_bumps: int = 2
    starts_at_once: bool = False
    added_partitions_start: int = -1
    state_first: bool = True
    manages_state: bool = True
    shares_out: bool = True
    tells_on_subscribing: bool = True
    finds_share_coordinators: bool = True
    rejoins_freely: bool = True
    measures_member_ids: bool = True
    breaks_on_unknown: bool = False
    state_names: tuple[str, str, str] = ("Empty", "Stable", "")
    empty_groups_die: bool = False
    lists_topics: bool = False
    writes_each_epoch: bool = True
    keeps_assignments: bool = True
    notes_initialising: bool = True
    notes_empty_deletions: bool = True
    fills_prefixes: bool = False
    offsets_need_group: bool = False
    altering_bumps: bool = False
    completes_deletions: bool = False

    sessions_by_groups: bool = False
    sessions_end_with_connections: bool = True
    session_idle_ms: int = 0
    partitions_have_limits: bool = False
    turns_about: bool = True

    always_one_batch: bool = True
    sends_what_was_read: bool = False
    fetch_limit_config: str = ""
    offers_unwritten: bool = False
    window_is_strict: bool = True
    follows_markers: bool = False
    reads_holes: bool = True
    archives_missing: bool = True
    throttles: bool = True
    joins_runs: bool = True

    start_wakes: bool = True
    release_passes_others: bool = True
    tells_why: bool = True
    counts_settled: bool = True
    counts_first_update: bool = True
    keeps_written_epochs: bool = False
    writes_chosen_start: bool = False
    writes_what_moves: bool = False

    state_in_log: bool = False
    knows_leader_epochs: bool = True
    fences_other_epochs: bool = False
    unknown_state: ErrorCode = ErrorCode.INVALID_REQUEST
    sums_up_unknown: bool = True
    start_follows: bool = False
    prefers_snapshots: bool = False
    snapshots_cold: bool = True
    updates_max: int = 0
    compacts_states: bool = False


#: As Apache Kafka 4.3.0 does it.
RELEASED = ShareRules()
