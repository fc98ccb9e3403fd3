"""Changes of the partitions of topics in a case: more of them, and other nodes."""

from __future__ import annotations

from kwire.client import Client
from kwire.error_codes import ErrorCode
from kwire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from mockbroker.certify.case_run import CaseRun

#: The client id of requests that a case itself sends to the cluster, in the history.
CLIENT_ID = "certify"


def add_partitions(run: CaseRun, topic: str, count: int) -> None:
    """Give a topic this many partitions in all."""
    wanted = CreatePartitionsTopic(name=topic, count=count, assignments=None)
    with Client(run.wire.bootstrap_servers, client_id=CLIENT_ID) as client:
        [result] = client.send(CreatePartitionsRequest(topics=[wanted], timeout_ms=5_000)).results
    if result.error_code:
        raise RuntimeError(f"partitions of {topic}: {ErrorCode(result.error_code).name} {result.error_message}")


def reassign(run: CaseRun, topic: str, partition: int, node: int) -> None:
    """Move a partition to another node, and wait until this is its leader."""
    row = ReassignablePartition(partition_index=partition, replicas=(node,))
    with Client(run.wire.bootstrap_servers, client_id=CLIENT_ID) as client:
        client.send(AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=[row])]))
    run.wire.wait_until(lambda: run.cluster.describe_topic(topic).partitions[partition].leader == node)
