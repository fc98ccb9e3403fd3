"""The listener of the controller (KIP-919). Expected answers are those of a real Apache Kafka 4.4.0 at its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kwire import Client
from kwire.client import ConnectionClosed
from kwire.error_codes import ErrorCode
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.messages.describe_cluster import DescribeClusterRequest
from kwire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kwire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from kwire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from kwire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.messages.metadata import MetadataRequest
from mockbroker import Cluster
from mockbroker.config.keys import ConfigError
from mockbroker.handlers.controller import CONTROLLER_API_KEYS

_BROKERS, _CONTROLLERS = 1, 2
_BROKER_RESOURCE = 4
#: What a real controller lists, without the APIs between the nodes of a cluster.
_LISTED = (
    *(17, 18, 19, 20, 29, 30, 31, 32, 33, 36, 37, 38, 39, 40, 41, 43, 44, 45, 46, 49, 50, 51, 55, 57, 60, 64),
    *(80, 81, 94),
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, controller_port=0) as running:
        yield running


@pytest.fixture
def controller(cluster: Cluster) -> Iterator[Client]:
    with Client(cluster.bootstrap_controllers, timeout_s=20) as client:
        yield client


def test_the_controller_lists_its_own_apis(controller: Client) -> None:
    response = controller.send(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4)

    assert tuple(row.api_key for row in response.api_keys) == _LISTED
    assert frozenset(_LISTED) == CONTROLLER_API_KEYS


def test_an_api_of_brokers_closes_the_connection(controller: Client) -> None:
    with pytest.raises(ConnectionClosed):
        controller.send(MetadataRequest(topics=None), 12)


def test_the_controller_describes_itself(cluster: Cluster, controller: Client) -> None:
    response = controller.send(
        DescribeClusterRequest(endpoint_type=_CONTROLLERS, include_cluster_authorized_operations=True), 2
    )

    (row,) = response.brokers
    assert f"{row.host}:{row.port}" == cluster.bootstrap_controllers
    assert (row.broker_id, response.controller_id, response.endpoint_type) == (0, 0, _CONTROLLERS)
    assert response.cluster_authorized_operations == 8096


@pytest.mark.parametrize(
    ("version", "endpoint_type", "code"),
    [
        (0, _BROKERS, ErrorCode.INVALID_REQUEST),
        (1, _BROKERS, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (2, _BROKERS, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (2, 3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_the_controller_describes_no_other_endpoints(
    controller: Client, version: int, endpoint_type: int, code: ErrorCode
) -> None:
    response = controller.send(DescribeClusterRequest(endpoint_type=endpoint_type), version)

    assert (response.error_code, response.endpoint_type, response.brokers) == (code, _BROKERS, [])


def test_the_quorum_names_the_listener_of_the_controller(cluster: Cluster, controller: Client) -> None:
    request = DescribeQuorumRequest(
        [DescribeQuorumRequestTopicData("__cluster_metadata", [DescribeQuorumRequestPartitionData(0)])]
    )

    (node,) = controller.send(request, 2).nodes
    (listener,) = node.listeners
    assert listener.name == "CONTROLLER"
    assert f"{listener.host}:{listener.port}" == cluster.bootstrap_controllers


def test_a_topic_that_the_controller_creates_is_known_to_brokers(cluster: Cluster, controller: Client) -> None:
    topic = CreatableTopic("by-controller", num_partitions=2, replication_factor=3)
    (created,) = controller.send(CreateTopicsRequest([topic], timeout_ms=5_000), 7).topics

    with Client(cluster.bootstrap_servers.split(",")[0], timeout_s=20) as broker:
        names = [row.name for row in broker.send(MetadataRequest(topics=None), 12).topics]

    assert created.error_code == ErrorCode.NONE
    assert "by-controller" in names


@pytest.mark.parametrize(
    ("broker", "code"),
    [
        ("", ErrorCode.NONE),
        ("0", ErrorCode.NONE),
        ("2", ErrorCode.NONE),
        ("+1", ErrorCode.NONE),
        ("7", ErrorCode.BROKER_ID_NOT_REGISTERED),
        ("-1", ErrorCode.INVALID_REQUEST),
        ("abc", ErrorCode.INVALID_REQUEST),
        ("99999999999", ErrorCode.INVALID_REQUEST),
    ],
)
def test_the_controller_changes_the_configuration_of_any_registered_broker(
    controller: Client, broker: str, code: ErrorCode
) -> None:
    change = AlterableConfig("log.cleaner.threads", 0, "9")  # More than a broker itself would accept at once.
    resource = AlterConfigsResource(_BROKER_RESOURCE, broker, [change])

    (row,) = controller.send(IncrementalAlterConfigsRequest([resource], validate_only=True), 1).responses

    assert row.error_code == code


def test_apis_that_a_real_controller_only_lists_are_answered_with_its_error(controller: Client) -> None:
    users = controller.send(DescribeUserScramCredentialsRequest(users=None), 0)
    tokens = controller.send(DescribeDelegationTokenRequest(owners=None), 3)

    assert (users.error_code, [row.error_code for row in users.results]) == (-1, [-1])
    assert tokens.error_code == -1


def test_the_listener_closes_and_opens_with_the_first_node() -> None:
    with Cluster(nodes=2, controller_port=0) as cluster:
        address = cluster.bootstrap_controllers
        cluster.stop_node(0)
        with pytest.raises(OSError, match="refused"):
            Client(address, timeout_s=20)

        cluster.start_node(0)
        with Client(address, timeout_s=20) as client:
            assert client.send(DescribeClusterRequest(endpoint_type=_CONTROLLERS), 1).controller_id == 0


def test_the_address_stays_after_a_reset() -> None:
    with Cluster(controller_port=0) as cluster:
        address = cluster.bootstrap_controllers
        cluster.reset()

        with Client(address, timeout_s=20) as client:
            assert client.send(DescribeClusterRequest(endpoint_type=_CONTROLLERS), 1).controller_id == 0


def test_a_cluster_without_the_listener_has_no_address() -> None:
    with Cluster() as cluster, pytest.raises(ConfigError, match="started without controller_port"):
        _ = cluster.bootstrap_controllers


def test_a_wrong_port_is_refused() -> None:
    with pytest.raises(ConfigError, match="controller_port: 65536 is not between 0 and 65535"):
        Cluster(controller_port=65_536).start()


def test_the_listener_has_the_protocol_of_the_map() -> None:
    properties = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:RUBBISH"}

    with pytest.raises(ConfigError, match=r"controller\.listener\.names: CONTROLLER has the protocol RUBBISH"):
        Cluster(properties=properties, controller_port=0).start()


def _alter(controller: Client, *resources: AlterConfigsResource) -> list[tuple[int, str, int]]:
    answer = controller.send(IncrementalAlterConfigsRequest(list(resources)), 1)
    return [(row.resource_type, row.resource_name, row.error_code) for row in answer.responses]


def _group(*changes: tuple[int, str | None]) -> AlterConfigsResource:
    rows = [AlterableConfig("share.session.timeout.ms", operation, value) for operation, value in changes]
    return AlterConfigsResource(32, "g", rows)


def test_the_controller_answers_a_resource_that_is_listed_several_times_once(controller: Client) -> None:
    metrics = AlterConfigsResource(16, "m", [AlterableConfig("interval.ms", 0, "1000")])

    assert _alter(controller, _group(), metrics, _group(), _group()) == [(32, "g", 42), (16, "m", 0)]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        (((0, None),), 0),
        (((2, None),), 40),
        (((0, "nonsense"), (0, "50000")), 0),
        (((0, "50000"), (0, "nonsense")), 40),
        (((4, "1"),), -1),
    ],
)
def test_the_controller_takes_null_for_a_deletion_and_the_last_of_equal_keys(
    controller: Client, changes: tuple[tuple[int, str | None], ...], code: int
) -> None:
    assert _alter(controller, _group(*changes)) == [(32, "g", code)]


def test_the_controller_has_a_code_for_unknown_types_of_resources(controller: Client) -> None:
    assert _alter(controller, AlterConfigsResource(77, "t", [])) == [(77, "t", 35)]
