"""What an edition of KIP-932 decides about share groups, as one frozen value.

State machines and handlers read its fields and never an edition's name; the values are in `mockbroker/editions`.
"""

from __future__ import annotations

import msgspec

#: The edition that everything means unless told otherwise.
RELEASED_EDITION = "4.3"


class ShareRules(msgspec.Struct, frozen=True):
    """The defaults are those of Apache Kafka 4.3.0; every other edition says only what it does otherwise.

    group_configs: the names that a group can be configured by; None for all that there are.

    Groups:
    joining_bumps: how often a member that joins raises the group epoch, from 0 for a new group; 4.3.0 raises it for
    the member and once more for the metadata of what it subscribes to.
    state_first: a partition is assigned only once its state has been initialised; else as soon as it is there, and its
    state begins with the first read or write of it.
    manages_state: share coordinators initialise and delete states, and sum them up.
    shares_out: partitions are shared out among the members, at most once in an interval; else each has them all.
    tells_on_subscribing: whoever names its topics is told its assignment, changed or not.
    rejoins_freely: whoever comes with epoch 0 joins anew; else its member epoch is checked as any other.
    measures_member_ids: a heartbeat's member id that is empty or too long is refused before all else.
    breaks_on_unknown: a heartbeat to a group that there is not, and a description of the group without a name, end in
    an unknown server error.

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
    sends_what_was_read: all batches that were read are sent, not only those in which something was acquired.
    offers_unwritten: a release that is still being written lets fetches look for its records, which get none.
    window_is_strict: no more is acquired than the limit of records in flight leaves room for; else it only decides
    whether anything is.
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
    keeps_written_epochs: a write stores the leader epoch and the state epoch that it came with.
    """

    group_configs: frozenset[str] | None = None

    joining_bumps: int = 2
    state_first: bool = True
    manages_state: bool = True
    shares_out: bool = True
    tells_on_subscribing: bool = True
    rejoins_freely: bool = True
    measures_member_ids: bool = True
    breaks_on_unknown: bool = False

    sessions_by_groups: bool = False
    sessions_end_with_connections: bool = True
    session_idle_ms: int = 0
    partitions_have_limits: bool = False
    turns_about: bool = True

    always_one_batch: bool = True
    sends_what_was_read: bool = False
    offers_unwritten: bool = False
    window_is_strict: bool = True
    reads_holes: bool = True
    archives_missing: bool = True
    throttles: bool = True
    joins_runs: bool = True

    start_wakes: bool = True
    release_passes_others: bool = True
    tells_why: bool = True
    counts_settled: bool = True
    keeps_written_epochs: bool = False


#: As Apache Kafka 4.3.0 does it.
RELEASED = ShareRules()
