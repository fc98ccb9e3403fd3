"""The client against brokers that respond, violate the protocol, or do not respond."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import pytest

from kwire.client import Client, ConnectFailed, ConnectionClosed, ProtocolViolation, RequestTimedOut
from kwire.client.handshake import API_VERSIONS_VERSION
from kwire.codec import decode, encode
from kwire.errors import Truncated, UnsupportedVersion
from kwire.headers import encode_response
from kwire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kwire.messages.create_topics import CreateTopicsRequest
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from kwire.messages.produce import ProduceRequest, ProduceResponse
from kwire.registry import message_class
from tests.support.messages.scripted_broker import OFFERED, WAIT_S, Peer, ScriptedBroker

SOON_S = 0.05


def metadata(cluster: str) -> MetadataResponse:
    return MetadataResponse(cluster_id=cluster)


def test_a_request_is_sent_in_the_highest_common_version_and_its_response_is_decoded() -> None:
    seen = []

    def script(peer: Peer) -> None:
        peer.welcome()
        seen.append((peer.request(), peer.last))
        peer.answer(metadata("one"))

    with ScriptedBroker(script) as broker, Client(broker.bootstrap, client_id="me") as client:
        response = client.send(MetadataRequest(topics=None))

    request, header = seen[0]
    assert isinstance(request, MetadataRequest)
    assert request.topics is None
    # The highest version of the broker; the highest of kwire is above it.
    assert (header.request_api_version, header.client_id) == (12, "me")
    assert isinstance(response, MetadataResponse)
    assert response.cluster_id == "one"
    assert client.versions[3] == (0, 12)


def test_a_given_version_is_sent_even_if_the_broker_does_not_support_it() -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        peer.receive()
        assert peer.last.request_api_version == 13
        peer.answer(metadata("x"))

    with ScriptedBroker(script) as broker, Client(broker.bootstrap) as client:
        assert client.send(MetadataRequest(), 13).cluster_id == "x"


def test_the_response_of_another_edition_is_decoded_in_that_edition() -> None:
    request = message_class("ShareGroupHeartbeatRequest", "4.0-early-access")(group_id="g", member_id="m")
    response = message_class("ShareGroupHeartbeatResponse", "4.0-early-access")(member_id="m", member_epoch=3)

    def script(peer: Peer) -> None:
        peer.welcome()
        peer.reply(response)

    with ScriptedBroker(script) as broker, Client(broker.bootstrap) as client:
        got = client.send(request, 0)

    assert got == response
    assert got.EDITION == "4.0-early-access"


def test_pipelined_requests_get_their_responses_in_any_order_of_result_calls() -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        headers = []
        for _ in range(3):
            peer.receive()
            headers.append(peer.last)
        for number, header in enumerate(headers):
            peer.answer(metadata(str(number)), correlation_id=header.correlation_id)

    with ScriptedBroker(script) as broker, Client(broker.bootstrap) as client:
        pending = [client.submit(MetadataRequest()) for _ in range(3)]

        assert [pending[index].result().cluster_id for index in (2, 0, 1, 2)] == ["2", "0", "1", "2"]
        assert all(one.done for one in pending)


def test_client_and_broker_that_both_send_without_reading_do_not_deadlock() -> None:
    big = b"x" * 2_000_000

    def script(peer: Peer) -> None:
        peer.welcome()
        for _ in range(8):
            peer.receive()
            peer.send_body(big)

    with ScriptedBroker(script) as broker, Client(broker.bootstrap, timeout_s=10) as client:
        pending = [client.submit(ProduceRequest(transactional_id="t" * 30_000, acks=1), 3) for _ in range(7)]
        assert client.send_raw(3, 1, big) == big
        assert all(one.body() == big for one in pending)


def test_produce_without_acks_does_not_wait_and_the_next_response_is_for_the_next_request() -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        assert peer.request() == ProduceRequest(acks=0)
        peer.reply(ProduceResponse(throttle_time_ms=7))

    with ScriptedBroker(script) as broker, Client(broker.bootstrap) as client:
        assert client.send(ProduceRequest(acks=0)) is None
        assert client.send(ProduceRequest(acks=-1)).throttle_time_ms == 7


def test_raw_bytes_are_sent_and_returned_unchanged() -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        assert peer.receive() == b"\x01\x02rubbish"
        assert (peer.last.request_api_key, peer.last.request_api_version) == (3, 1)
        peer.send_body(b"more rubbish")

    with ScriptedBroker(script) as broker, Client(broker.bootstrap) as client:
        assert client.send_raw(3, 1, b"\x01\x02rubbish") == b"more rubbish"


def test_raw_bytes_without_a_response_do_not_wait() -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        assert peer.receive() == b"a"
        assert peer.receive() == b"b"
        peer.send_body(b"c")

    with ScriptedBroker(script) as broker, Client(broker.bootstrap) as client:
        assert client.send_raw(0, 3, b"a", answered=False) == b""
        assert client.send_raw(0, 3, b"b") == b"c"


@pytest.mark.parametrize(("listed", "repeated"), [([ApiVersion(18, 0, 2)], 2), ([], 0)])
def test_api_versions_is_repeated_in_the_highest_version_that_an_old_broker_lists_or_in_0(
    listed: list[ApiVersion], repeated: int
) -> None:
    def script(peer: Peer) -> None:
        peer.receive()
        assert peer.last.request_api_version == API_VERSIONS_VERSION
        peer.answer(ApiVersionsResponse(error_code=35, api_keys=listed), version=0)
        peer.reply(OFFERED)
        assert peer.last.request_api_version == repeated

    with ScriptedBroker(script) as broker, Client(broker.bootstrap) as client:
        assert (client.versions[3], client.versions[18]) == ((0, 12), (0, 4))


def test_an_unsupported_api_or_version_is_an_error_before_anything_is_sent() -> None:
    newest = CreateTopicsRequest()

    def script(peer: Peer) -> None:
        peer.reply(ApiVersionsResponse(api_keys=[ApiVersion(3, 90, 99)]))
        assert peer.until_closed()

    with ScriptedBroker(script) as broker, Client(broker.bootstrap) as client:
        with pytest.raises(UnsupportedVersion, match="does not have API 19"):
            client.send(newest)
        with pytest.raises(UnsupportedVersion, match="versions 90 to 99"):
            client.send(MetadataRequest())
        with pytest.raises(UnsupportedVersion, match="is not a request"):
            client.send(metadata("x"))


def test_without_negotiation_nothing_is_sent_before_the_first_request() -> None:
    def script(peer: Peer) -> None:
        assert isinstance(peer.request(), MetadataRequest)
        peer.answer(metadata("x"))

    with ScriptedBroker(script) as broker, Client(broker.bootstrap, negotiated=False) as client:
        assert client.send(MetadataRequest()).cluster_id == "x"


def test_the_late_response_of_a_timed_out_request_is_dropped() -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        peer.receive()
        late = peer.last.correlation_id
        peer.receive()
        peer.answer(metadata("late"), correlation_id=late)
        peer.answer(metadata("next"))

    with ScriptedBroker(script) as broker, Client(broker.bootstrap) as client:
        first = client.submit(MetadataRequest())
        with pytest.raises(RequestTimedOut, match=r"after 0\.05 s"):
            first.result(SOON_S)
        assert client.send(MetadataRequest()).cluster_id == "next"
        assert first.result().cluster_id == "late"


def test_a_silent_broker_does_not_delay_beyond_the_timeout_of_the_client() -> None:
    def script(peer: Peer) -> None:
        assert peer.receive()
        assert peer.until_closed()

    with ScriptedBroker(script) as broker, pytest.raises(ConnectFailed, match="waiting for the response"):
        Client(broker.bootstrap, timeout_s=SOON_S)


def test_a_broker_that_does_not_read_does_not_delay_beyond_the_timeout_of_the_request() -> None:
    seen_by_the_client = threading.Event()

    def script(peer: Peer) -> None:
        peer.welcome()
        assert seen_by_the_client.wait(WAIT_S)

    with ScriptedBroker(script) as broker, Client(broker.bootstrap) as client:
        with pytest.raises(RequestTimedOut, match="sending"):
            client.send_raw(3, 0, bytes(64 << 20), timeout_s=SOON_S)  # More than the buffers of two sockets hold.
        seen_by_the_client.set()


def send_wrong_id(peer: Peer) -> None:
    peer.answer(metadata("x"), correlation_id=peer.last.correlation_id + 1)


def send_negative_length(peer: Peer) -> None:
    peer.socket.sendall(b"\xff\xff\xff\xff")


def send_too_much(peer: Peer) -> None:
    peer.socket.sendall((1001).to_bytes(4, "big"))


@pytest.mark.parametrize(
    ("misbehave", "complaint"),
    [
        (send_wrong_id, "correlation id 3 instead of 2"),
        (send_negative_length, "length -1 is negative"),
        (send_too_much, "limit of 1000"),
    ],
)
def test_an_invalid_response_ends_the_connection_with_the_reason(
    misbehave: Callable[[Peer], None], complaint: str
) -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        peer.receive()
        misbehave(peer)
        assert peer.until_closed()

    with ScriptedBroker(script) as broker, Client(broker.bootstrap, max_response_bytes=1000) as client:
        with pytest.raises(ProtocolViolation, match=complaint):
            client.send(MetadataRequest())
        with pytest.raises(ConnectionClosed):
            client.send(MetadataRequest())


def test_unexpected_bytes_end_the_connection() -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        peer.receive()
        answer = encode_response(metadata("x"), 12, peer.last.correlation_id)
        framed = len(answer).to_bytes(4, "big") + answer
        peer.socket.sendall(framed + framed)
        assert peer.until_closed()

    with ScriptedBroker(script) as broker, Client(broker.bootstrap) as client:
        assert client.send(MetadataRequest()).cluster_id == "x"
        with pytest.raises(ConnectionClosed, match="unexpected bytes received"):
            client.send(MetadataRequest())


def test_every_waiting_request_fails_when_the_connection_is_closed() -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        peer.receive()
        peer.receive()
        peer.answer(metadata("second"), correlation_id=2)

    with ScriptedBroker(script) as broker, Client(broker.bootstrap) as client:
        first, second = client.submit(MetadataRequest()), client.submit(MetadataRequest())
        assert first.result().cluster_id == "second"
        with pytest.raises(ConnectionClosed, match="broker closed"):
            second.result()
        assert first.result().cluster_id == "second"


def test_a_decode_error_of_a_response_does_not_end_the_connection() -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        peer.receive()
        peer.send_body(b"\0\0\0")
        peer.reply(metadata("fine"))

    with ScriptedBroker(script) as broker, Client(broker.bootstrap) as client:
        with pytest.raises(Truncated, match="MetadataResponse"):
            client.send(MetadataRequest())
        assert client.send(MetadataRequest()).cluster_id == "fine"


def test_the_first_broker_that_responds_is_used() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        nobody = f"127.0.0.1:{gone.getsockname()[1]}"
    with ScriptedBroker(Peer.welcome) as broker, Client(f"{nobody}, {broker.bootstrap}") as client:
        assert str(client.address) == broker.bootstrap


def test_the_error_has_a_reason_for_each_broker_when_none_responds() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        nobody = f"127.0.0.1:{gone.getsockname()[1]}"

    with ScriptedBroker(lambda peer: None) as broker, pytest.raises(ConnectFailed) as caught:
        Client(f"{nobody},{broker.bootstrap}")

    assert f"{nobody}: " in str(caught.value)
    assert "refused" in str(caught.value)
    assert f"{broker.bootstrap}: " in str(caught.value)


@pytest.mark.parametrize("bootstrap", ["", ",", "localhost", ":9092", "a:0", "a:65536", "a:x", "::1:9092", "a:٣"])
def test_an_invalid_bootstrap_list_is_rejected(bootstrap: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        Client(bootstrap)


def test_correlation_ids_start_again_below_31_bits() -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        for _ in range(2):
            peer.receive()
            peer.answer(metadata(str(peer.last.correlation_id)))

    with ScriptedBroker(script) as broker, Client(broker.bootstrap) as client:
        client._correlation_id = 2**31 - 2
        assert client.send(MetadataRequest()).cluster_id == str(2**31 - 1)
        assert client.send(MetadataRequest()).cluster_id == "0"


def test_the_sent_bytes_are_those_of_the_codec() -> None:
    bodies = []

    def script(peer: Peer) -> None:
        peer.welcome()
        bodies.append(peer.receive())
        peer.answer(metadata("x"))

    with ScriptedBroker(script) as broker, Client(broker.bootstrap) as client:
        client.send(MetadataRequest(allow_auto_topic_creation=False))

    assert bodies == [encode(MetadataRequest(allow_auto_topic_creation=False), 12)]
    assert decode(MetadataRequest, 12, bodies[0]).allow_auto_topic_creation is False


@pytest.mark.parametrize("version", range(1, 6))
@pytest.mark.parametrize("rows", [[], [ApiVersion(18, 0, 2)]])
def test_the_refusal_of_an_api_versions_request_is_read_in_version_0(version: int, rows: list[ApiVersion]) -> None:
    refusal = ApiVersionsResponse(error_code=35, api_keys=rows)

    def script(peer: Peer) -> None:
        peer.receive()
        peer.answer(refusal, version=0)
        peer.receive()
        peer.answer(refusal)

    with ScriptedBroker(script) as broker, Client(broker.bootstrap, negotiated=False) as client:
        request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        answers = [client.send(request, version), client.send(request, version)]

    # A broker that answers in the version of the request is read too.
    assert answers == [refusal, refusal]
