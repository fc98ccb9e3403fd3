"""Feature levels: which way each may go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from mockbroker.config.features import FEATURES, finalize_levels
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.feature_levels import FeatureUpdate, UpgradeType
from mockbroker.state.metadata.feature_levels import apply_updates as apply_updates_of_release

FINALIZED = finalize_levels((), "4.3")


def apply_updates(levels: Mapping[str, int], updates: Sequence[FeatureUpdate]) -> dict[str, int]:
    return apply_updates_of_release(levels, updates, FEATURES["4.3"])


def test_updates_are_applied_and_a_level_of_zero_is_not_listed() -> None:
    after = apply_updates(FINALIZED, [FeatureUpdate("share.version", 0, UpgradeType.SAFE_DOWNGRADE)])

    assert after == {name: level for name, level in FINALIZED.items() if name != "share.version"}


def test_an_invalid_update_rejects_all_others() -> None:
    valid = FeatureUpdate("transaction.version", 1, UpgradeType.UNSAFE_DOWNGRADE)

    with pytest.raises(KafkaError, match=r"share\.version"):
        apply_updates(FINALIZED, [valid, FeatureUpdate("share.version", 0, UpgradeType.UPGRADE)])


def test_the_last_of_two_updates_of_one_feature_counts() -> None:
    twice = [FeatureUpdate("share.version", level, UpgradeType.UPGRADE) for level in (2, 1)]

    assert apply_updates(FINALIZED, twice) == FINALIZED


@pytest.mark.parametrize(
    ("current", "level", "is_allowed"), [(29, 24, True), (29, 23, True), (29, 22, False), (12, 11, True)]
)
def test_metadata_downgrades_only_to_versions_with_the_same_records(current: int, level: int, is_allowed: bool) -> None:
    levels = {"metadata.version": current}
    update = FeatureUpdate("metadata.version", level, UpgradeType.SAFE_DOWNGRADE)

    if is_allowed:
        assert apply_updates(levels, [update]) == {"metadata.version": level}
    else:
        with pytest.raises(KafkaError, match="delete metadata"):
            apply_updates(levels, [update])


def test_eligible_leaders_require_a_metadata_version_that_supports_them() -> None:
    elr = FeatureUpdate("eligible.leader.replicas.version", 1, UpgradeType.UPGRADE)

    with pytest.raises(KafkaError, match="depends on"):
        apply_updates({"metadata.version": 22}, [elr])
    both = [elr, FeatureUpdate("metadata.version", 23, UpgradeType.UPGRADE)]
    assert apply_updates({"metadata.version": 22}, both)["eligible.leader.replicas.version"] == 1


def test_the_kraft_version_is_never_downgraded() -> None:
    for kind in (UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE):
        with pytest.raises(KafkaError, match="Can't downgrade"):
            apply_updates({**FINALIZED, "kraft.version": 1}, [FeatureUpdate("kraft.version", 0, kind)])
