"""The APIs whose answers at the listener of the controller are not those of a broker."""

from __future__ import annotations

from typing import cast

from kwire.error_codes import ErrorCode
from kwire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse
from kwire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kwire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.admin import api_versions as broker_apis
from mockbroker.handlers.admin.quorum import voter_id
from mockbroker.handlers.controller import CONTROLLER_API_KEYS
from mockbroker.handlers.shared.authorize import cluster_operations
from mockbroker.handlers.shared.broker_addresses import NO_OPERATIONS
from mockbroker.kafka_error import KafkaError

_BROKERS, _CONTROLLERS = 1, 2
#: The version that brought endpoint types: an older request asks for brokers.
_ENDPOINT_TYPES_SINCE = 1

refuse_api_versions = broker_apis.refuse_api_versions


def api_versions(request: ApiVersionsRequest, ctx: Context) -> Outcome:
    """List the APIs of the controller, and the features of the cluster."""
    outcome = broker_apis.api_versions(request, ctx)
    assert isinstance(outcome, Reply)
    response = cast(ApiVersionsResponse, outcome.response)
    response.api_keys = [row for row in response.api_keys if row.api_key in CONTROLLER_API_KEYS]
    return outcome


def describe_cluster(request: DescribeClusterRequest, ctx: Context) -> Outcome:
    """Return the controllers; the controller does not list brokers. Pinned by tests/mockbroker/handlers/controller."""
    if request.endpoint_type == _BROKERS:
        has_types = ctx.api_version >= _ENDPOINT_TYPES_SINCE
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE if has_types else ErrorCode.INVALID_REQUEST
        raise KafkaError(code, "this endpoint is of type CONTROLLER, and the request wants one of type BROKER")
    if request.endpoint_type != _CONTROLLERS:
        raise KafkaError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"endpoint type {request.endpoint_type} is not supported")
    endpoint, voter = ctx.cluster.controller_endpoint, voter_id(ctx)
    assert endpoint is not None
    includes_operations = request.include_cluster_authorized_operations
    return Reply(
        DescribeClusterResponse(
            endpoint_type=_CONTROLLERS,
            cluster_id=ctx.cluster.cluster_id,
            controller_id=voter,
            brokers=[DescribeClusterBroker(voter, endpoint.host, endpoint.port)],
            cluster_authorized_operations=cluster_operations(ctx) if includes_operations else NO_OPERATIONS,
        )
    )


def describe_user_scram_credentials(request: DescribeUserScramCredentialsRequest, ctx: Context) -> Outcome:
    """Refuse: a real controller lists this API, and answers with an internal error. Pinned as above."""
    row = DescribeUserScramCredentialsResult(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    return Reply(DescribeUserScramCredentialsResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, results=[row]))


def describe_delegation_token(request: DescribeDelegationTokenRequest, ctx: Context) -> Outcome:
    """Refuse, as for SCRAM credentials. Pinned as above."""
    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
