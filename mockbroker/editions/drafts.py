"""What the drafts of KIP-932 spoke, and the rules of each revision. The sources are the five pages, r1 the oldest.

r1 and r2 give no protocol and speak that of r4; r3 and r5 speak it where they do not differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from kwire.error_codes import ErrorCode
from kwire.registry import DEFAULT_EDITION
from mockbroker.coordinators.edition_records import EditionRecords
from mockbroker.editions import draft_offsets, draft_state
from mockbroker.editions.acknowledge_types import with_early_types
from mockbroker.editions.checkpoints import DELTA_INDEXES, Checkpoints
from mockbroker.editions.dialect import Arrive, Dialect
from mockbroker.editions.early_access import without_limits
from mockbroker.editions.early_records import EarlyStates
from mockbroker.editions.group_records import MEMBER, NAMED, NUMBERED, TAGGED, UNTAGGED, WORDED, DraftRecords
from mockbroker.editions.recast import recast
from mockbroker.handlers import ROUTES
from mockbroker.routes import Route
from mockbroker.state.group_facts import FactKind
from mockbroker.state.share_rules import ShareRules

R1, R2, R3, R4, R5 = "kip932-r1", "kip932-r2", "kip932-r3", "kip932-r4", "kip932-r5"

#: What no revision knew: epochs of leaders, counts of what is done, groups that begin with a bump of their own, and
#: snapshots of what nobody writes.
_EARLY = ShareRules(
    joining_bumps=1,
    counts_settled=False,
    knows_leader_epochs=False,
    fences_other_epochs=True,
    unknown_state=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    sums_up_unknown=False,
    snapshots_cold=False,
)
_FIRST = replace(_EARLY, starts_at_once=True, added_partitions_start=0)
#: What is stored is the start, and of the records behind it those that are done or have failed.
_DURABLE = replace(_FIRST, start_follows=True, writes_chosen_start=True)
#: What the third brought: states of groups, the share coordinator, its records, and deletion in two stages.
_COORDINATED = replace(
    _EARLY,
    state_names=("EMPTY", "STABLE", "DEAD"),
    empty_groups_die=True,
    keeps_assignments=False,
    fills_prefixes=True,
    offsets_need_group=True,
    completes_deletions=True,
    writes_chosen_start=True,
    writes_what_moves=True,
    start_follows=True,
    prefers_snapshots=True,
    follows_markers=True,
)
_WITH_DELTAS = replace(_COORDINATED, writes_each_epoch=False, updates_max=DELTA_INDEXES, compacts_states=True)

RULES: Mapping[str, ShareRules] = {
    R1: _DURABLE,
    # A leader that has recorded nothing yet knows as much as one that has recorded that the start is open.
    R2: replace(_FIRST, state_in_log=True, unknown_state=ErrorCode.INVALID_REQUEST, sums_up_unknown=True),
    R3: _WITH_DELTAS,
    R4: _WITH_DELTAS,
    R5: replace(_COORDINATED, notes_initialising=False, notes_empty_deletions=False, altering_bumps=True),
}

#: What a broker has where nothing is set: an assignment is made whenever the group's epoch rises.
DEFAULTS = {"group.share.assignment.interval.ms": "0"}

#: Where share groups and their state had records of their own.
RECORDS: Mapping[str, EditionRecords] = {
    R3: DraftRecords({FactKind.SHARE_EPOCH: WORDED, FactKind.SHARE_STATES: UNTAGGED}, Checkpoints),
    R4: DraftRecords(
        {FactKind.SHARE_EPOCH: NUMBERED, FactKind.SHARE_MEMBER: MEMBER, FactKind.SHARE_STATES: TAGGED}, Checkpoints
    ),
    R5: DraftRecords(
        {FactKind.SHARE_EPOCH: NAMED, FactKind.SHARE_MEMBER: MEMBER, FactKind.SHARE_STATES: TAGGED}, EarlyStates
    ),
}

#: Revisions in which accept, release and reject were 0, 1 and 2, and gaps had no number.
_EARLY_TYPES = frozenset({R1, R2, R3})

_FIND_COORDINATOR = 10
#: The key type SHARE came with version 5, which was never released without it.
_COORDINATOR_VERSIONS = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 6}

_SHARE_FETCH, _SHARE_ACKNOWLEDGE = 78, 79
_SHARE_APIS = {
    76: 1,
    77: 1,
    _SHARE_FETCH: 1,
    _SHARE_ACKNOWLEDGE: 1,
    83: 0,
    84: 0,
    85: 0,
    86: 0,
    87: 0,
    90: 0,
    91: 0,
    92: 0,
}

#: What the leaders of share-partitions answered, in the messages of the revision, before coordinators did.
_DESCRIBE_OFFSETS = 90
_AT_LEADERS = {_DESCRIBE_OFFSETS: "describe_at_leaders", 91: "alter_at_leaders", 92: "delete_at_leaders"}

_STATE = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_REQUEST,
    }
)
#: By API, the codes that the fourth revision lists; those of the offsets described come from the third.
_LISTED: Mapping[int, frozenset[ErrorCode]] = {
    77: frozenset(
        {
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_GROUP_ID,
            ErrorCode.GROUP_ID_NOT_FOUND,
        }
    ),
    _SHARE_FETCH: frozenset(
        {
            ErrorCode.SHARE_SESSION_NOT_FOUND,
            ErrorCode.INVALID_SHARE_SESSION_EPOCH,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.INVALID_RECORD_STATE,
            ErrorCode.KAFKA_STORAGE_ERROR,
            ErrorCode.CORRUPT_MESSAGE,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.UNKNOWN_SERVER_ERROR,
        }
    ),
    _SHARE_ACKNOWLEDGE: frozenset(
        {
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            ErrorCode.SHARE_SESSION_NOT_FOUND,
            ErrorCode.INVALID_SHARE_SESSION_EPOCH,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.INVALID_RECORD_STATE,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.UNKNOWN_SERVER_ERROR,
        }
    ),
    84: _STATE,
    87: _STATE,
    90: frozenset(
        {
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.GROUP_ID_NOT_FOUND,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.UNKNOWN_SERVER_ERROR,
        }
    ),
    91: frozenset(
        {
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.GROUP_ID_NOT_FOUND,
            ErrorCode.NON_EMPTY_GROUP,
            ErrorCode.KAFKA_STORAGE_ERROR,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.UNKNOWN_SERVER_ERROR,
        }
    ),
}


def routes(edition: str) -> Mapping[int, Route]:
    """The table of APIs of a revision."""
    return {key: _line(route, edition) for key, route in ROUTES.items()}


def _line(route: Route, edition: str) -> Route:
    key = route.api_key
    if edition == R3 and key in _AT_LEADERS:
        listed = _LISTED.get(key) if key == _DESCRIBE_OFFSETS else None
        place = f"share_offsets_leaders.{_AT_LEADERS[key]}"
        return Dialect(route, edition, {0: 0}, arrive=_as_it_is, depart=_as_it_goes, errors=listed, place=place)
    if key == _FIND_COORDINATOR:
        return Dialect(route, edition, _COORDINATOR_VERSIONS)
    if key not in _SHARE_APIS:
        return route
    own = (draft_state.flat(key) if edition == R3 else None) or draft_state.by_topic(key) or draft_offsets.flat(key)
    arrive, depart = own or (_arrival(route, edition), None)
    return Dialect(route, edition, {0: _SHARE_APIS[key]}, arrive=arrive, depart=depart, errors=_LISTED.get(key))


def _as_it_is(request: Any) -> Any:
    return request


def _as_it_goes(response: Any, _request: Any) -> Any:
    return response


def _arrival(route: Route, edition: str) -> Arrive | None:
    arrive: Arrive | None = None
    if route.api_key == _SHARE_FETCH:
        arrive = partial(without_limits, edition=edition)
    elif route.api_key == _SHARE_ACKNOWLEDGE:
        arrive = recast("ShareAcknowledgeRequest", edition, DEFAULT_EDITION)
    if arrive is not None and edition in _EARLY_TYPES:
        return with_early_types(arrive)
    return arrive
