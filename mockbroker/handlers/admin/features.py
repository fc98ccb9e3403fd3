"""UpdateFeatures (57): feature levels of the whole cluster, and the effects of a change."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.messages.update_features import UpdatableFeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.shared.authorize import AclOperation, authorize_cluster
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.feature_levels import ELR_VERSION, SHARE_VERSION, FeatureUpdate, apply_updates

#: From this version on the response has no rows.
_NO_ROWS_SINCE = 2


def update_features(request: UpdateFeaturesRequest, ctx: Context) -> Outcome:
    """Change all levels or none; with validate_only only check them.

    The allowDowngrade of version 0 has no effect. Pinned by the conversations other-update-features*.
    """
    authorize_cluster(AclOperation.ALTER, ctx, message="ALTER is not allowed.")
    updates = [FeatureUpdate(row.feature, row.max_version_level, row.upgrade_type) for row in request.feature_updates]
    after = apply_updates(ctx.cluster.features, updates, ctx.cluster.supported_features)
    if not request.validate_only:
        _apply_levels(after, ctx)
        if any(update.name == ELR_VERSION and update.level > 0 for update in updates):
            ctx.cluster.configs.set_cluster_min_isr()
    rows = []
    if ctx.api_version < _NO_ROWS_SINCE:
        # Kafka reports success for each feature with the name of error 0.
        none = ErrorCode.NONE
        rows = [UpdatableFeatureResult(update.name, none, none.name) for update in updates]
    return Reply(UpdateFeaturesResponse(error_message=None, results=rows))


def refuse_update_features(request: UpdateFeaturesRequest, error: KafkaError) -> UpdateFeaturesResponse:
    """A response with the error and no rows."""
    return UpdateFeaturesResponse(error_code=error.code, error_message=error.message or error.code.name)


def _apply_levels(after: dict[str, int], ctx: Context) -> None:
    """Set the levels, and stop what the lowered features no longer allow."""
    cluster = ctx.cluster
    before = dict(cluster.features)
    if after == before:
        return
    cluster.broker_storage.level_changes += 1
    cluster.features.clear()
    cluster.features.update(after)
    cluster.configs.elr = after.get(ELR_VERSION, 0) > 0
    assert cluster.controller is not None
    cluster.controller.update_rules()
    if before.get(SHARE_VERSION, 0) > 0 and after.get(SHARE_VERSION, 0) < 1:
        for node in cluster.inter_broker.nodes.values():
            node.end_share_sessions()
