"""Early access of share groups in Apache Kafka 4.0.0: version 0 of every API, no administration of offsets.

ApiVersions lists the share APIs as a 4.0.0 broker does whose operator has switched them on
(`unstable.api.versions.enable`, and `share` among `group.coordinator.rebalance.protocols`, which have no effect here).
All other APIs are those of 4.3.0, in its versions. So are the features: 4.0.0 had no share.version, and no client
requests it; here its level 0 stands for a broker on which share groups are not enabled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kwire import uuids
from kwire.error_codes import ErrorCode
from kwire.registry import DEFAULT_EDITION
from mockbroker.editions.early_records import EarlyRecords
from mockbroker.editions.edition_route import EDITION_ROUTES, EditionRoute
from mockbroker.editions.message_conversion import message_converter
from mockbroker.engine.routes import Route
from mockbroker.kafka_error import KafkaError
from mockbroker.state.share import share_rules

EDITION = "4.0-early-access"

RECORDS = EarlyRecords()

RULES = share_rules.ShareRules(
    groups=share_rules.GroupRules(
        config_names=frozenset(
            {
                "consumer.heartbeat.interval.ms",
                "consumer.session.timeout.ms",
                "share.auto.offset.reset",
                "share.heartbeat.interval.ms",
                "share.record.lock.duration.ms",
                "share.session.timeout.ms",
            }
        ),
        epoch_bumps_on_join=1,
        distributes_partitions=False,
        sends_assignment_on_subscription=False,
        accepts_rejoin_at_epoch_zero=False,
        validates_member_id_length=False,
        unknown_group_is_server_error=True,
    ),
    group_records=share_rules.GroupRecordRules(lists_topics=True),
    sessions=share_rules.SessionRules(limited_by_groups=True, close_on_disconnect=False, idle_eviction_ms=120_000),
    fetch=share_rules.FetchRules(
        has_partition_max_bytes=True,
        rotates_partitions=False,
        returns_oversized_batch=False,
        returns_all_read_records=True,
        max_records_config="share.fetch.max.fetch.records",
        looks_for_unwritten_releases=True,
    ),
    acquisition=share_rules.AcquisitionRules(
        stops_at_in_flight_limit=False,
        fetches_state_gaps=False,
        archives_compacted_records=False,
        throttles_redelivery=False,
        merges_runs=False,
    ),
    acknowledgement=share_rules.AcknowledgementRules(
        start_advance_wakes_fetches=False, release_skips_other_members=False, returns_ack_error_message=False
    ),
    state=share_rules.StateRules(
        initialized_before_assignment=False,
        managed_by_coordinator=False,
        coordinator_is_discoverable=False,
        stores_delivery_complete_count=False,
        first_update_counts=False,
        stores_written_epochs=True,
        snapshots_cold_state=False,
    ),
)

#: The share APIs, and the released versions in which they are handled.
_HANDLED_AS = {76: 1, 77: 1, 78: 1, 79: 1, 83: 0, 84: 0, 85: 0, 86: 0, 87: 0}
#: APIs that did not exist: describe, alter and delete offsets.
_LATER = frozenset({90, 91, 92})
#: A fetch had no record limit: all records that fit its bytes were acquired, in their batches.
_NO_LIMIT = 0x7FFFFFFF
_UUID, _UUID_LENGTH = re.compile(r"[A-Za-z0-9_-]{22}(==)?"), 22


def routes() -> Mapping[int, Route]:
    """The table of APIs."""
    return {key: _edition_route(route) for key, route in EDITION_ROUTES.items() if key not in _LATER}


def _edition_route(route: Route) -> Route:
    handled_as = _HANDLED_AS.get(route.api_key)
    if handled_as is None:
        return route
    translate = {"ShareFetch": _translate_fetch, "ShareAcknowledge": _translate_acknowledge}.get(route.name)
    return EditionRoute(route, EDITION, {0: handled_as}, translate_request=translate)


def _translate_fetch(request: Any) -> Any:
    translated = without_record_limit(request, EDITION)
    translated.member_id = _to_uuid(request.member_id)
    return translated


def _translate_acknowledge(request: Any) -> Any:
    translated = message_converter("ShareAcknowledgeRequest", EDITION, DEFAULT_EDITION)(request)
    translated.member_id = _to_uuid(request.member_id)
    return translated


def _to_uuid(member_id: str | None) -> str:
    """4.0.0 parses every member id of a share session as a UUID, and fails if it is none."""
    if member_id is None or not _UUID.fullmatch(member_id):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return uuids.to_text(uuids.from_text(member_id[:_UUID_LENGTH]))


def without_record_limit(request: Any, edition: str) -> Any:
    """Translate the ShareFetch of an edition in which fetches had no record limit."""
    translated = message_converter("ShareFetchRequest", edition, DEFAULT_EDITION)(request)
    translated.max_records = translated.batch_size = _NO_LIMIT
    return translated
