"""Share groups as Apache Kafka 4.0.0 had them: early access, version 0 of every API, no administration of offsets.

ApiVersions lists the share APIs as a 4.0.0 broker does whose operator has switched them on
(`unstable.api.versions.enable`, and `share` among `group.coordinator.rebalance.protocols`, which have no effect here).
All other APIs are those of 4.3.0, in its versions. So are the features: 4.0.0 knew no share.version, and no client
asks for it; here its level 0 is a broker whose operator has switched nothing on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kwire import uuids
from kwire.error_codes import ErrorCode
from kwire.registry import DEFAULT_EDITION
from mockbroker.editions.dialect import Dialect
from mockbroker.editions.early_records import EarlyRecords
from mockbroker.editions.recast import recast
from mockbroker.handlers import ROUTES
from mockbroker.kafka_error import KafkaError
from mockbroker.routes import Route
from mockbroker.state.share_rules import ShareRules

EDITION = "4.0-early-access"

RECORDS = EarlyRecords()

RULES = ShareRules(
    group_configs=frozenset(
        {
            "consumer.heartbeat.interval.ms",
            "consumer.session.timeout.ms",
            "share.auto.offset.reset",
            "share.heartbeat.interval.ms",
            "share.record.lock.duration.ms",
            "share.session.timeout.ms",
        }
    ),
    joining_bumps=1,
    state_first=False,
    manages_state=False,
    shares_out=False,
    tells_on_subscribing=False,
    finds_share_coordinators=False,
    rejoins_freely=False,
    measures_member_ids=False,
    breaks_on_unknown=True,
    lists_topics=True,
    sessions_by_groups=True,
    sessions_end_with_connections=False,
    session_idle_ms=120_000,
    partitions_have_limits=True,
    turns_about=False,
    always_one_batch=False,
    sends_what_was_read=True,
    fetch_limit_config="share.fetch.max.fetch.records",
    offers_unwritten=True,
    window_is_strict=False,
    reads_holes=False,
    archives_missing=False,
    throttles=False,
    joins_runs=False,
    start_wakes=False,
    release_passes_others=False,
    tells_why=False,
    counts_settled=False,
    counts_first_update=False,
    keeps_written_epochs=True,
    snapshots_cold=False,
)

#: The share APIs, and the released versions as which they are handled.
_HANDLED_AS = {76: 1, 77: 1, 78: 1, 79: 1, 83: 0, 84: 0, 85: 0, 86: 0, 87: 0}
#: Offsets could not be described, altered or deleted yet.
_LATER = frozenset({90, 91, 92})
#: A fetch said nothing of records: all that its bytes held were acquired, in batches as they came.
_NO_LIMIT = 0x7FFFFFFF
_UUID, _UUID_LENGTH = re.compile(r"[A-Za-z0-9_-]{22}(==)?"), 22


def routes() -> Mapping[int, Route]:
    """The table of APIs."""
    return {key: _line(route) for key, route in ROUTES.items() if key not in _LATER}


def _line(route: Route) -> Route:
    handled_as = _HANDLED_AS.get(route.api_key)
    if handled_as is None:
        return route
    arrive = {"ShareFetch": _fetch, "ShareAcknowledge": _acknowledge}.get(route.name)
    return Dialect(route, EDITION, {0: handled_as}, arrive=arrive)


def _fetch(request: Any) -> Any:
    asked = without_limits(request, EDITION)
    asked.member_id = _uuid(request.member_id)
    return asked


def _acknowledge(request: Any) -> Any:
    asked = recast("ShareAcknowledgeRequest", EDITION, DEFAULT_EDITION)(request)
    asked.member_id = _uuid(request.member_id)
    return asked


def _uuid(member_id: str | None) -> str:
    """4.0.0 makes a UUID of every member id in a share session, and breaks where it is none."""
    if member_id is None or not _UUID.fullmatch(member_id):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return uuids.to_text(uuids.from_text(member_id[:_UUID_LENGTH]))


def without_limits(request: Any, edition: str) -> Any:
    """The ShareFetch of an edition in which fetches had no limit of records."""
    asked = recast("ShareFetchRequest", edition, DEFAULT_EDITION)(request)
    asked.max_records = asked.batch_size = _NO_LIMIT
    return asked
