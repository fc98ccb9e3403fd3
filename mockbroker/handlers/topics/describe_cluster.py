"""DescribeCluster (60): the brokers of the cluster."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.shared.authorize import cluster_operations
from mockbroker.handlers.shared.broker_addresses import NO_OPERATIONS, broker_address, sorted_brokers
from mockbroker.kafka_error import KafkaError

_BROKERS, _CONTROLLERS = 1, 2


def describe_cluster(request: DescribeClusterRequest, ctx: Context) -> Outcome:
    """Return the brokers; brokers cannot list controllers. Pinned by the conversation other-describe-cluster."""
    if request.endpoint_type == _CONTROLLERS:
        why = "this endpoint is of type BROKER, and the request wants one of type CONTROLLER"
        raise KafkaError(ErrorCode.MISMATCHED_ENDPOINT_TYPE, why)
    if request.endpoint_type != _BROKERS:
        raise KafkaError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"endpoint type {request.endpoint_type} is not supported")
    includes_operations = request.include_cluster_authorized_operations
    return Reply(
        DescribeClusterResponse(
            cluster_id=ctx.cluster.cluster_id,
            controller_id=ctx.cluster.metadata.controller_id,
            brokers=_cluster_rows(request, ctx),
            cluster_authorized_operations=cluster_operations(ctx) if includes_operations else NO_OPERATIONS,
        )
    )


def _cluster_rows(request: DescribeClusterRequest, ctx: Context) -> list[DescribeClusterBroker]:
    """The brokers; if requested also those that are registered and down (KIP-1073)."""
    rows = [DescribeClusterBroker(node.node_id, *broker_address(node, ctx), node.rack) for node in sorted_brokers(ctx)]
    if request.include_fenced_brokers and ctx.cluster.controller is not None:
        rows += [
            DescribeClusterBroker(node.node_id, *broker_address(node, ctx), node.rack, is_fenced=True)
            for node in ctx.cluster.controller.fenced.values()
        ]
    return sorted(rows, key=lambda row: row.broker_id)
