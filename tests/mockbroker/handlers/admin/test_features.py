"""UpdateFeatures: the levels and their epoch."""

from __future__ import annotations

from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.brokers.broker import Broker


def test_a_new_feature_level_increments_the_epoch() -> None:
    broker = Broker()

    def finalized_levels() -> tuple[int, dict[str, int]]:
        response = broker.call(ApiVersionsRequest("x", "1"), 4)
        levels = {row.name: row.max_version_level for row in response.finalized_features}
        return response.finalized_features_epoch, levels

    epoch, levels = finalized_levels()
    broker.call(UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("share.version", 0, upgrade_type=2)]), 2)
    epoch_after, levels_after = finalized_levels()

    assert levels_after == {name: level for name, level in levels.items() if name != "share.version"}
    assert epoch_after > epoch
