"""ApiVersions (18): what this broker serves, told from its table of routes."""

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
from mockbroker.context import Context
from mockbroker.features import SUPPORTED
from mockbroker.handlers.metadata_offset import metadata_offset
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Reply
from mockbroker.routes import Route

#: KIP-511: the form of the name and the version of a client's software.
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_SOFTWARE_SINCE = 3
#: Up to v3 a feature may not start at level 0, and those that do are left out.
_ZERO_LEVELS_SINCE = 4
_OWN_KEY = 18
#: Served in any case, and told where something takes what clients push. Source: Kafka's DefaultApiVersionManager.
_TELEMETRY_KEYS = (71, 72)


def api_versions(request: ApiVersionsRequest, ctx: Context) -> Outcome:
    """Tell the APIs and features; pinned by the conversation other-apiversions-forms of a real broker."""
    if ctx.api_version >= _SOFTWARE_SINCE:
        for text in (request.client_software_name, request.client_software_version):
            if not _SOFTWARE.fullmatch(text):
                return Reply(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST))
        ctx.connection.software_name = request.client_software_name
        ctx.connection.software_version = request.client_software_version
    return Reply(
        ApiVersionsResponse(
            api_keys=[
                _range_of(route)
                for route in ctx.cluster.routes.values()
                if route.api_key not in _TELEMETRY_KEYS or ctx.cluster.config.takes_telemetry
            ],
            supported_features=[
                SupportedFeatureKey(name=name, min_version=low, max_version=high)
                for name, (low, high) in SUPPORTED.items()
                if low > 0 or ctx.api_version >= _ZERO_LEVELS_SINCE
            ],
            finalized_features_epoch=metadata_offset(ctx),
            finalized_features=[
                FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
                for name, level in ctx.cluster.features.items()
            ],
        )
    )


def refuse_api_versions(request: ApiVersionsRequest, error: KafkaError) -> ApiVersionsResponse:
    """A too-new request learns the range of ApiVersions itself and nothing else."""
    from mockbroker.handlers import ROUTES  # The table names this handler, so it cannot be imported above.

    response = ApiVersionsResponse(error_code=error.code)
    if error.code == ErrorCode.UNSUPPORTED_VERSION:
        response.api_keys = [_range_of(ROUTES[_OWN_KEY])]
    return response


def _range_of(route: Route) -> ApiVersion:
    return ApiVersion(api_key=route.api_key, min_version=route.listed[0], max_version=route.listed[1])
