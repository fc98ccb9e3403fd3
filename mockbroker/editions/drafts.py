"""The drafts of KIP-932: routes and rules of each revision. The sources are the five pages, r1 the oldest.

r1 and r2 give no protocol and speak that of r4; r3 and r5 speak it where they do not differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from kwire.error_codes import ErrorCode
from kwire.registry import DEFAULT_EDITION
from mockbroker.cluster_services.edition_records import EditionRecords
from mockbroker.editions import draft_offset_messages, draft_state_messages, group_records
from mockbroker.editions.acknowledge_types import with_early_acknowledge_types
from mockbroker.editions.checkpoint_records import DELTA_INDEXES, CheckpointRecords
from mockbroker.editions.delta_writes import StoredRange
from mockbroker.editions.early_access import without_record_limit
from mockbroker.editions.early_records import EarlyStateRecords
from mockbroker.editions.edition_route import EDITION_ROUTES, EditionRoute, RequestTranslator
from mockbroker.editions.message_conversion import message_converter
from mockbroker.editions.transaction_markers import TransactionMarkers
from mockbroker.engine.routes import Route
from mockbroker.state.share import share_rules

R1, R2, R3, R4, R5 = "kip932-r1", "kip932-r2", "kip932-r3", "kip932-r4", "kip932-r5"

#: Common to all revisions: no leader epochs, no count of completed records, groups that start at epoch 0, and no
#: snapshots of states without writes.
_EARLY = share_rules.ShareRules(
    groups=share_rules.GroupRules(epoch_bumps_on_join=1),
    state=share_rules.StateRules(
        stores_delivery_complete_count=False,
        checks_leader_epochs=False,
        fences_different_state_epoch=True,
        missing_state_error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        summarizes_missing_state=False,
        snapshots_cold_state=False,
    ),
)
_FIRST = replace(_EARLY, groups=replace(_EARLY.groups, chooses_start_on_subscription=True, added_partition_start=0))
#: The stored state is the start, and those of the records after it that are complete or have failed.
_DURABLE = replace(_FIRST, state=replace(_FIRST.state, start_passes_completed_records=True, writes_initial_start=True))
#: Added by the third: states of groups, the share coordinator, its records, and deletion in two stages.
_COORDINATED = replace(
    _EARLY,
    groups=replace(_EARLY.groups, state_names=("EMPTY", "STABLE", "DEAD"), expires_empty_groups=True),
    group_records=share_rules.GroupRecordRules(persists_assignments=False, lists_partition_counts=True),
    offsets=share_rules.OffsetRules(requires_group=True, resumes_deletions=True),
    acquisition=share_rules.AcquisitionRules(marker_reader=TransactionMarkers),
    state=replace(
        _EARLY.state,
        writes_initial_start=True,
        delta_writer=StoredRange,
        start_passes_completed_records=True,
        snapshots_empty_state=True,
    ),
)
_WITH_DELTAS = replace(
    _COORDINATED,
    group_records=replace(_COORDINATED.group_records, writes_every_epoch=False),
    state=replace(_COORDINATED.state, max_updates_per_snapshot=DELTA_INDEXES, compacts_state_topic=True),
)

_IN_LOG = replace(_FIRST.state, in_partition_log=True, missing_state_error=ErrorCode.INVALID_REQUEST)

RULES: Mapping[str, share_rules.ShareRules] = {
    R1: _DURABLE,
    # A leader without any record and a leader whose record says that no start is chosen are in the same state.
    R2: replace(_FIRST, state=replace(_IN_LOG, summarizes_missing_state=True)),
    R3: _WITH_DELTAS,
    R4: _WITH_DELTAS,
    R5: replace(
        _COORDINATED,
        group_records=replace(
            _COORDINATED.group_records, lists_initializing_partitions=False, lists_before_empty_deletion=False
        ),
        offsets=replace(_COORDINATED.offsets, alteration_bumps_group_epoch=True),
    ),
}

#: Defaults of the broker's configuration: an assignment is computed whenever the group's epoch rises.
DEFAULTS = {"group.share.assignment.interval.ms": "0"}

#: Record formats of share groups and their state, where the drafts differ.
RECORDS: Mapping[str, EditionRecords] = {
    R3: group_records.DraftRecords(group_records.R3, CheckpointRecords),
    R4: group_records.DraftRecords(group_records.R4, CheckpointRecords),
    R5: group_records.DraftRecords(group_records.R5, EarlyStateRecords),
}

#: Revisions in which accept, release and reject were 0, 1 and 2, and gaps had no number.
_EARLY_TYPES = frozenset({R1, R2, R3})

_FIND_COORDINATOR = 10
#: The key type SHARE came with version 5, which was never released without it.
_COORDINATOR_VERSIONS = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 6}

_SHARE_FETCH, _SHARE_ACKNOWLEDGE = 78, 79
#: The share APIs, and the released versions in which they are handled.
_SHARE_APIS = {
    **dict.fromkeys((76, 77, _SHARE_FETCH, _SHARE_ACKNOWLEDGE), 1),
    **dict.fromkeys((83, 84, 85, 86, 87, 90, 91, 92), 0),
}

#: APIs that the leaders of share partitions served, in the messages of the revision, before coordinators did.
_DESCRIBE_OFFSETS = 90
_AT_LEADERS = {_DESCRIBE_OFFSETS: "describe_at_leaders", 91: "alter_at_leaders", 92: "delete_at_leaders"}

#: Common to the APIs of coordinators, and to those of share sessions.
_GROUP = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_REQUEST})
_STATE = _GROUP | {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
_SESSION = frozenset(
    {
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.INVALID_RECORD_STATE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
#: By API, the codes that the fourth revision lists; those of the offsets described come from the third.
_LISTED: Mapping[int, frozenset[ErrorCode]] = {
    77: _GROUP | {ErrorCode.INVALID_GROUP_ID},
    _SHARE_FETCH: _SESSION
    | {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}
    | {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.CORRUPT_MESSAGE},
    _SHARE_ACKNOWLEDGE: _SESSION | {ErrorCode.GROUP_AUTHORIZATION_FAILED},
    84: _STATE,
    87: _STATE,
    90: _GROUP
    | {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    | {ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_SERVER_ERROR},
    91: _GROUP | {ErrorCode.NON_EMPTY_GROUP, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR},
}


def routes(edition: str) -> Mapping[int, Route]:
    """The table of APIs of a revision."""
    return {key: _edition_route(route, edition) for key, route in EDITION_ROUTES.items()}


def _edition_route(route: Route, edition: str) -> Route:
    key = route.api_key
    if edition == R3 and key in _AT_LEADERS:
        return EditionRoute(
            route,
            edition,
            {0: 0},
            translate_request=_keep_request,
            translate_response=_keep_response,
            errors=_LISTED.get(key) if key == _DESCRIBE_OFFSETS else None,
            handler_path=f"mockbroker.editions.share_offsets_at_leaders.{_AT_LEADERS[key]}",
        )
    if key == _FIND_COORDINATOR:
        return EditionRoute(route, edition, _COORDINATOR_VERSIONS)
    if key not in _SHARE_APIS:
        return route
    translators = (
        (draft_state_messages.single_partition_translators(key) if edition == R3 else None)
        or draft_state_messages.topic_translators(key)
        or draft_offset_messages.translators_for(key)
    )
    translate, translate_back = translators or (_request_translator(route, edition), None)
    handled_as = {0: _SHARE_APIS[key]}
    return EditionRoute(route, edition, handled_as, translate, translate_back, errors=_LISTED.get(key))


def _keep_request(request: Any) -> Any:
    return request


def _keep_response(response: Any, _request: Any) -> Any:
    return response


def _request_translator(route: Route, edition: str) -> RequestTranslator | None:
    translate: RequestTranslator | None = None
    if route.api_key == _SHARE_FETCH:
        translate = partial(without_record_limit, edition=edition)
    elif route.api_key == _SHARE_ACKNOWLEDGE:
        translate = message_converter("ShareAcknowledgeRequest", edition, DEFAULT_EDITION)
    if translate is not None and edition in _EARLY_TYPES:
        return with_early_acknowledge_types(translate)
    return translate
