"""Changes of feature levels: what Kafka lets up, what it lets down, and what is a different thing altogether."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum

import msgspec

from kwire.error_codes import ErrorCode
from mockbroker.features import SUPPORTED
from mockbroker.kafka_error import KafkaError

METADATA_VERSION, KRAFT_VERSION = "metadata.version", "kraft.version"
ELR_VERSION, SHARE_VERSION = "eligible.leader.replicas.version", "share.version"
GROUP_VERSION, TRANSACTION_VERSION = "group.version", "transaction.version"

#: Levels of metadata.version that came with new records: nobody goes down over one. Source: Kafka's MetadataVersion.
_WITH_NEW_RECORDS = frozenset({8, 11, 13, 14, 15, 17, 23, 30})
#: Level of eligible.leader.replicas.version -> the metadata.version that it depends on.
_ELR_NEEDS = {1: 23}


class Kind(IntEnum):
    """Which way a level may go; the numbers are the wire's."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(msgspec.Struct, frozen=True):
    """A level that somebody wants; kind: a number of `Kind`, or one that is none."""

    name: str
    level: int
    kind: int


def updated(levels: Mapping[str, int], updates: Sequence[FeatureUpdate]) -> dict[str, int]:
    """The finalized levels after some updates, all checked; nothing is stored. A level 0 is not listed.

    Of two updates of one feature the last counts. Source: Kafka's FeatureControlManager.updateFeatures.
    Raises: INVALID_UPDATE_VERSION for all of them when one of them cannot be.
    """
    wanted = {update.name: update for update in updates}
    after = {**levels, **{name: update.level for name, update in wanted.items()}}
    for update in wanted.values():
        _check(update, levels.get(update.name, 0), after)
    return {name: after[name] for name in SUPPORTED if after.get(name, 0) > 0}


def _check(update: FeatureUpdate, current: int, after: Mapping[str, int]) -> None:
    if update.kind not in Kind._value2member_map_:
        raise _refused(update, "The controller does not support the given upgrade type.")
    low, high = SUPPORTED.get(update.name, (0, 0))
    if update.level < 0:
        raise _refused(update, "A feature version cannot be less than 0.")
    if not low <= update.level <= high:
        raise _refused(update, f"The supported levels are {low} to {high}.")
    if update.name not in SUPPORTED:
        raise _refused(update, "The feature is not known.")
    if update.level < current and update.kind == Kind.UPGRADE:
        raise _refused(update, "To go down the upgrade type has to be safe or unsafe downgrade.")
    if update.level > current and update.kind != Kind.UPGRADE:
        raise _refused(update, "Can't downgrade to a newer version.")
    if update.level < current and update.name == KRAFT_VERSION:
        raise _refused(update, "Can't downgrade the version of this feature.")
    if update.name == METADATA_VERSION and any(update.level < new <= current for new in _WITH_NEW_RECORDS):
        raise _refused(update, "The downgrade might delete metadata information.")
    needs = _ELR_NEEDS.get(update.level, 0) if update.name == ELR_VERSION else 0
    if after[METADATA_VERSION] < needs:
        raise _refused(update, f"It depends on {METADATA_VERSION} level {needs}.")


def _refused(update: FeatureUpdate, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_UPDATE_VERSION, f"Invalid update version {update.level} for feature {update.name}. {why}"
    )
