"""Feature levels: which way each may go."""

from __future__ import annotations

import pytest

from mockbroker.features import FINALIZED
from mockbroker.kafka_error import KafkaError
from mockbroker.state.feature_levels import FeatureUpdate, Kind, updated


def test_updates_are_taken_over_and_a_level_of_zero_is_not_listed() -> None:
    after = updated(FINALIZED, [FeatureUpdate("share.version", 0, Kind.SAFE_DOWNGRADE)])

    assert after == {name: level for name, level in FINALIZED.items() if name != "share.version"}


def test_one_that_cannot_be_keeps_all_others_from_changing() -> None:
    good = FeatureUpdate("transaction.version", 1, Kind.UNSAFE_DOWNGRADE)

    with pytest.raises(KafkaError, match=r"share\.version"):
        updated(FINALIZED, [good, FeatureUpdate("share.version", 0, Kind.UPGRADE)])


def test_the_last_of_two_updates_of_one_feature_counts() -> None:
    twice = [FeatureUpdate("share.version", level, Kind.UPGRADE) for level in (2, 1)]

    assert updated(FINALIZED, twice) == dict(FINALIZED)


@pytest.mark.parametrize(
    ("current", "wanted", "may"), [(29, 24, True), (29, 23, True), (29, 22, False), (12, 11, True)]
)
def test_metadata_goes_down_only_as_far_as_no_records_are_unknown_there(current: int, wanted: int, may: bool) -> None:
    levels = {"metadata.version": current}
    update = FeatureUpdate("metadata.version", wanted, Kind.SAFE_DOWNGRADE)

    if may:
        assert updated(levels, [update]) == {"metadata.version": wanted}
    else:
        with pytest.raises(KafkaError, match="delete metadata"):
            updated(levels, [update])


def test_eligible_leaders_need_a_metadata_version_that_knows_them() -> None:
    elr = FeatureUpdate("eligible.leader.replicas.version", 1, Kind.UPGRADE)

    with pytest.raises(KafkaError, match="depends on"):
        updated({"metadata.version": 22}, [elr])
    both = [elr, FeatureUpdate("metadata.version", 23, Kind.UPGRADE)]
    assert updated({"metadata.version": 22}, both)["eligible.leader.replicas.version"] == 1


def test_the_kraft_version_never_goes_down() -> None:
    for kind in (Kind.SAFE_DOWNGRADE, Kind.UNSAFE_DOWNGRADE):
        with pytest.raises(KafkaError, match="Can't downgrade"):
            updated({**FINALIZED, "kraft.version": 1}, [FeatureUpdate("kraft.version", 0, kind)])
