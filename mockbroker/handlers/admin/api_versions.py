"""ApiVersions (18): the APIs, versions and features of this broker, from its table of routes."""

from __future__ import annotations

import re

from kwire.error_codes import ErrorCode
from kwire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.topics.metadata_offset import metadata_offset
from mockbroker.kafka_error import KafkaError, UnservedVersion

#: KIP-511: the form of the name and the version of a client's software.
_SOFTWARE_PATTERN = r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?"
_SOFTWARE_SINCE = 3
#: KIP-1242: from this version a request may name the cluster and the node that the client expects.
_EXPECTED_NODE_SINCE = 5
_NO_NODE = -1
#: Before this version a feature range cannot start at level 0; such features are omitted.
_ZERO_LEVELS_SINCE = 4
_API_VERSIONS_KEY = 18
#: A broker that serves this version lists the range in a refusal. Source: the classes of Kafka 2.3.1 and 2.4.1.
_RANGE_IN_REFUSAL_SINCE = 3
#: Always served, but listed only where a metrics receiver is configured. Source: Kafka's DefaultApiVersionManager.
_TELEMETRY_KEYS = (71, 72)


def api_versions(request: ApiVersionsRequest, ctx: Context) -> Outcome:
    """List the APIs and features; pinned by the conversation other-apiversions-forms of a real broker."""
    if ctx.api_version >= _SOFTWARE_SINCE:
        for text in (request.client_software_name, request.client_software_version):
            if not re.fullmatch(_SOFTWARE_PATTERN, text):
                return Reply(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST))
        ctx.connection.software_name = request.client_software_name
        ctx.connection.software_version = request.client_software_version
    if ctx.api_version >= _EXPECTED_NODE_SINCE:
        code = _check_expected_node(request, ctx)
        if code is not ErrorCode.NONE:
            return Reply(ApiVersionsResponse(error_code=code))
    own = ctx.cluster.node_apis.get(ctx.node.node_id)
    features = ctx.cluster.features_of(ctx.node.node_id)
    versions = ctx.cluster.api_versions if own is None else own.versions
    return Reply(
        ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=api_key, min_version=low, max_version=high)
                for api_key, (low, high) in versions.items()
                if api_key not in _TELEMETRY_KEYS or ctx.node.config.accepts_telemetry
            ],
            supported_features=[
                SupportedFeatureKey(name=name, min_version=low, max_version=high)
                for name, (low, high) in features.levels.items()
                if features.is_listed and (low > 0 or ctx.api_version >= _ZERO_LEVELS_SINCE)
            ],
            finalized_features_epoch=metadata_offset(ctx),
            finalized_features=[
                FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
                for name, level in ctx.cluster.features.items()
                if features.is_listed
            ],
        )
    )


def _check_expected_node(request: ApiVersionsRequest, ctx: Context) -> ErrorCode:
    """Compare the expected cluster and node with those of this broker; a request names both or neither.

    Pinned by the conversation other-apiversions-expected-node.
    """
    has_cluster, has_node = request.cluster_id is not None, request.node_id != _NO_NODE
    if has_cluster != has_node:
        return ErrorCode.INVALID_REQUEST
    is_expected = (request.cluster_id, request.node_id) == (ctx.cluster.cluster_id, ctx.node.node_id)
    return ErrorCode.NONE if is_expected or not has_cluster else ErrorCode.REBOOTSTRAP_REQUIRED


def refuse_api_versions(request: ApiVersionsRequest, error: KafkaError) -> ApiVersionsResponse:
    """A response to a request of an unsupported version lists the range of ApiVersions only; before KIP-511 nothing."""
    response = ApiVersionsResponse(error_code=error.code)
    if isinstance(error, UnservedVersion) and error.versions[1] >= _RANGE_IN_REFUSAL_SINCE:
        low, high = error.versions
        response.api_keys = [ApiVersion(api_key=_API_VERSIONS_KEY, min_version=low, max_version=high)]
    return response
