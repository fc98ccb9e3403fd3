"""ApiVersions: the cluster and the node that a client expects at an address (KIP-1242)."""

from __future__ import annotations

import pytest

from kwire import headers
from kwire.codec import decode
from kwire.error_codes import ErrorCode
from kwire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from mockbroker.engine.output import Send
from tests.support.brokers.broker import Broker

OTHER_CLUSTER = "nope"


@pytest.fixture(scope="module")
def broker() -> Broker:
    return Broker(release="4.4")


def ask(broker: Broker, cluster_id: str | None, node_id: int, version: int = 5) -> tuple[int, bool]:
    """The error, and whether APIs are listed."""
    request = ApiVersionsRequest("test", "1", cluster_id, node_id)
    response = broker.call(request, version)
    return response.error_code, bool(response.api_keys)


def test_the_expected_cluster_and_node_or_none_are_answered(broker: Broker) -> None:
    assert ask(broker, broker.core.state.cluster_id, 0) == (ErrorCode.NONE, True)
    assert ask(broker, None, -1) == (ErrorCode.NONE, True)


def test_another_cluster_or_node_is_answered_with_rebootstrap_required(broker: Broker) -> None:
    """Pinned by the conversation other-apiversions-expected-node."""
    cluster_id = broker.core.state.cluster_id

    for expected in ((OTHER_CLUSTER, 0), ("", 0), (cluster_id, 1), (cluster_id, -2)):
        assert ask(broker, *expected) == (ErrorCode.REBOOTSTRAP_REQUIRED, False)


def test_a_cluster_without_a_node_and_a_node_without_a_cluster_are_invalid(broker: Broker) -> None:
    """Pinned by the conversation other-apiversions-expected-node."""
    for expected in ((broker.core.state.cluster_id, -1), (OTHER_CLUSTER, -1), (None, 0), (None, 1)):
        assert ask(broker, *expected) == (ErrorCode.INVALID_REQUEST, False)


@pytest.mark.parametrize(("release", "last"), [("4.4", 5), ("4.3", 4)])
def test_a_version_of_a_later_release_is_answered_with_the_range_of_the_release(release: str, last: int) -> None:
    broker = Broker(release=release)
    too_new = bytes.fromhex("0012 0063 00000001 ffff 00")
    broker.core.submit(broker.connect("a"), too_new, broker.now_ms)
    [output] = [output for output in broker.core.take_output() if isinstance(output, Send)]
    _, body_at = headers.decode_response_header(output.body, 18, 0)
    response = decode(ApiVersionsResponse, 0, output.body[body_at:])

    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(row.api_key, row.max_version) for row in response.api_keys] == [(18, last)]
