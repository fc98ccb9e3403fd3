"""UpdateFeatures (57): feature levels of the whole cluster, and what follows when one of them changes."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.messages.update_features import UpdatableFeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse
from mockbroker.context import Context
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Reply
from mockbroker.security.authorize import CLUSTER_NAME, Operation, ResourceType, must
from mockbroker.state.feature_levels import ELR_VERSION, SHARE_VERSION, FeatureUpdate, updated

#: From this version on there are no rows.
_NO_ROWS_SINCE = 2


def update_features(request: UpdateFeaturesRequest, ctx: Context) -> Outcome:
    """Change levels, all or none, or only say whether they could be changed.

    The allowDowngrade of version 0 has no effect in 4.3.0. Pinned by the conversations other-update-features*.
    """
    must(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME, ctx, message="ALTER is not allowed.")
    updates = [FeatureUpdate(row.feature, row.max_version_level, row.upgrade_type) for row in request.feature_updates]
    after = updated(ctx.cluster.features, updates)
    if not request.validate_only:
        _finalize(after, ctx)
        if any(update.name == ELR_VERSION and update.level > 0 for update in updates):
            ctx.cluster.configs.secure_least_in_sync()
    rows = []
    if ctx.api_version < _NO_ROWS_SINCE:
        # Kafka tells each feature that it went well by the words of error 0.
        none = "The operation completed successfully."
        rows = [UpdatableFeatureResult(update.name, ErrorCode.NONE, none) for update in updates]
    return Reply(UpdateFeaturesResponse(error_message=None, results=rows))


def refuse_update_features(request: UpdateFeaturesRequest, error: KafkaError) -> UpdateFeaturesResponse:
    """A response that carries an error, without rows."""
    return UpdateFeaturesResponse(error_code=error.code, error_message=error.message or error.code.name)


def _finalize(after: dict[str, int], ctx: Context) -> None:
    """Take levels over, and switch off what they switch off."""
    cluster = ctx.cluster
    before = dict(cluster.features)
    if after == before:
        return
    cluster.kept.level_changes += 1
    cluster.features.clear()
    cluster.features.update(after)
    cluster.configs.elr = after.get(ELR_VERSION, 0) > 0
    assert cluster.controller is not None
    cluster.controller.levels_changed()
    if before.get(SHARE_VERSION, 0) > 0 and after.get(SHARE_VERSION, 0) < 1:
        for node in cluster.calls.nodes.values():
            node.end_share_sessions()
