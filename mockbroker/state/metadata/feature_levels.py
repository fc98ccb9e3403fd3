"""Changes of feature levels: validation of upgrades and downgrades."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum

import msgspec

from kwire.error_codes import ErrorCode
from mockbroker.config.features import FeatureSupport
from mockbroker.kafka_error import KafkaError

METADATA_VERSION, KRAFT_VERSION = "metadata.version", "kraft.version"
ELR_VERSION, SHARE_VERSION = "eligible.leader.replicas.version", "share.version"
GROUP_VERSION, TRANSACTION_VERSION = "group.version", "transaction.version"

#: Level of eligible.leader.replicas.version -> the metadata.version that it requires.
_ELR_NEEDS = {1: 23}


#: The level of share.version from which share groups may have dead-letter queues (KIP-1191).
_DEAD_LETTERS_SINCE = 2


def has_dead_letter_queues(levels: Mapping[str, int]) -> bool:
    """Whether the finalized levels enable the dead-letter queues of share groups."""
    return levels.get(SHARE_VERSION, 0) >= _DEAD_LETTERS_SINCE


class UpgradeType(IntEnum):
    """The allowed direction of a change; the numbers are the wire's."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(msgspec.Struct, frozen=True):
    """A requested level; kind: a number of `UpgradeType`, or an unknown one."""

    name: str
    level: int
    kind: int


def apply_updates(
    levels: Mapping[str, int], updates: Sequence[FeatureUpdate], support: FeatureSupport
) -> dict[str, int]:
    """The finalized levels after some checked updates; nothing is stored. Level 0 is not listed.

    support: the features of the release. The last of several updates of a feature is used. Source: Kafka's
    FeatureControlManager.updateFeatures.
    Raises: INVALID_UPDATE_VERSION for all of them when one is invalid.
    """
    by_name = {update.name: update for update in updates}
    after = {**levels, **{name: update.level for name, update in by_name.items()}}
    for update in by_name.values():
        _check_update(update, levels.get(update.name, 0), after, support)
    return {name: after[name] for name in support.levels if after.get(name, 0) > 0}


def _check_update(update: FeatureUpdate, current: int, after: Mapping[str, int], support: FeatureSupport) -> None:
    if update.kind not in UpgradeType._value2member_map_:
        raise _invalid_update(update, "The controller does not support the given upgrade type.")
    low, high = support.levels.get(update.name, (0, 0))
    if update.level < 0:
        raise _invalid_update(update, "A feature version cannot be less than 0.")
    if update.name not in support.levels:
        raise _invalid_update(update, "The controller does not support a feature of this name.")
    if not low <= update.level <= high:
        raise _invalid_update(update, f"The controller supports the levels {low} to {high}.")
    if update.level < current and update.kind == UpgradeType.UPGRADE:
        raise _invalid_update(update, "A downgrade requires the upgrade type safe or unsafe downgrade.")
    if update.level > current and update.kind != UpgradeType.UPGRADE:
        raise _invalid_update(update, "Can't downgrade to a newer version.")
    if update.level < current and update.name == KRAFT_VERSION:
        raise _invalid_update(update, "Can't downgrade the version of this feature.")
    new_levels = support.metadata_versions_with_new_records
    if update.name == METADATA_VERSION and any(update.level < new <= current for new in new_levels):
        raise _invalid_update(update, f"An unsupported downgrade from {current}: it might delete metadata.")
    needs = _ELR_NEEDS.get(update.level, 0) if update.name == ELR_VERSION else 0
    if after[METADATA_VERSION] < needs:
        raise _invalid_update(update, f"It depends on {METADATA_VERSION} level {needs}.")


def _invalid_update(update: FeatureUpdate, why: str) -> KafkaError:
    message = f"No feature was updated. Invalid update version {update.level} for feature {update.name}. {why}"
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, message)
