"""SASL authentication beyond the conversations other-sasl-*: tokens without header, sizes, the journal.

What happens to tokens without headers, with times, was seen on a real broker: a login answers with empty bytes, a wrong
password of PLAIN closes after the delay, bad credentials of SCRAM close at once.
"""

from __future__ import annotations

import random

import msgspec
import pytest

from kwire import headers
from kwire.error_codes import ErrorCode
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.messages.sasl_handshake import SaslHandshakeRequest
from mockbroker.engine.output import Close, Output, Send
from mockbroker.engine.sasl_authenticator import TRANSITIONS, Step
from tests.support.brokers.broker import Broker
from tests.support.brokers.sasl_clients import CONFIG, log_in_plain, send_handshake

DELAY_MS = 100


@pytest.fixture
def broker() -> Broker:
    return Broker(config=CONFIG)


def bare(broker: Broker, token: bytes, *, after_ms: int = 0) -> list[Output]:
    """What the broker does with bytes that are no request."""
    broker.core.submit(broker.connect("a"), token, broker.now_ms)
    broker.now_ms += after_ms
    broker.core.advance(broker.now_ms)
    return broker.core.take_output()


def test_a_handshake_of_version_0_is_followed_by_tokens_without_header(broker: Broker) -> None:
    send_handshake(broker, version=0)

    (answer,) = bare(broker, b"\0alice\0secret")

    assert isinstance(answer, Send)
    assert answer.body == b""
    assert broker.call(MetadataRequest(topics=[]), 13).brokers


def test_a_wrong_password_without_header_closes_after_the_delay_without_an_answer(broker: Broker) -> None:
    send_handshake(broker, version=0)

    assert bare(broker, b"\0alice\0wrong", after_ms=DELAY_MS - 1) == []
    (end,) = bare(broker, b"", after_ms=1)
    assert isinstance(end, Close)


def test_a_failed_scram_login_without_header_closes_at_once(broker: Broker) -> None:
    send_handshake(broker, "SCRAM-SHA-256", version=0)

    (end,) = bare(broker, b"n,,n=nobody,r=abc")

    assert isinstance(end, Close)


@pytest.mark.parametrize("software", ["librdkafka", ""])
def test_a_known_defect_of_a_client_is_named_with_its_software(broker: Broker, software: str) -> None:
    broker.core.state.security.add_scram("SCRAM-SHA-256=[name=alice,password=secret,iterations=4096]")
    broker.connect("a", listener="IN")
    if software:
        broker.call(ApiVersionsRequest(client_software_name=software, client_software_version="2.3.0"), 3)
    broker.call(SaslHandshakeRequest("SCRAM-SHA-256"), 1)
    first = broker.call(SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=abc"), 2)
    nonce = bytes(first.auth_bytes).decode().partition(",")[0].removeprefix("r=")
    broker.send(SaslAuthenticateRequest(auth_bytes=f"c=biws,r=abc{nonce},p=AAAA".encode()), 2)
    broker.advance(DELAY_MS)

    reason = broker.closed["a"]
    assert "has the nonce of the client twice, as librdkafka before 2.6.1 sends it; Kafka 4 refuses it too" in reason
    assert reason.endswith("(this client is librdkafka 2.3.0)" if software else "it too")


def test_a_failed_login_is_answered_after_the_delay_and_then_closed(broker: Broker) -> None:
    assert log_in_plain(broker, "alice", "wrong") is None
    broker.advance(DELAY_MS - 1)
    assert broker.take_response() is None
    broker.advance(1)

    answer = broker.take_response()
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "wrong user name or password" in answer.error_message
    assert "authentication by PLAIN failed" in broker.closed["a"]


def test_requests_after_a_failed_login_are_ignored(broker: Broker) -> None:
    log_in_plain(broker, "alice", "wrong")
    broker.send(MetadataRequest(topics=[]), 13)
    broker.advance(DELAY_MS)
    broker.send(MetadataRequest(topics=[]), 13)

    assert broker.take_response() is not None
    assert broker.take_response() is None
    assert [exchange.api_name for exchange in broker.core.journal] == ["SaslHandshake", "SaslAuthenticate"]


def test_without_a_delay_a_failure_is_answered_at_once() -> None:
    broker = Broker(config={**CONFIG, "connection.failed.authentication.delay.ms": "0"})

    assert log_in_plain(broker, "alice", "wrong").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "a" in broker.closed


def test_a_request_may_be_large_after_authentication_and_not_before() -> None:
    broker = Broker(config={**CONFIG, "sasl.server.max.receive.size": "100"})
    number = broker.connect("b", listener="IN")

    assert broker.core.accepts_frame_size(number, 100)
    assert not broker.core.accepts_frame_size(number, 101)
    broker.send(SaslHandshakeRequest("x" * 100), 1, connection="b")
    assert "sasl.server.max.receive.size is 100" in broker.closed["b"]
    log_in_plain(broker, "alice", "secret")
    assert broker.core.accepts_frame_size(broker.connect("a"), 1_000_000)


def test_an_api_versions_that_is_too_new_is_answered_before_and_after_authentication(broker: Broker) -> None:
    broker.connect("a", listener="IN")
    too_new = bytes.fromhex("0012 0063 00000001 ffff 00")
    for _ in range(2):
        broker.core.submit(broker.connect("a"), too_new, broker.now_ms)
        (answer,) = broker.core.take_output()
        assert isinstance(answer, Send)
        assert answer.body[4:6] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
        if not broker.core.journal.exchanges("SaslAuthenticate"):
            assert log_in_plain(broker, "alice", "secret").error_code == 0


def test_an_invalid_request_closes_at_once(broker: Broker) -> None:
    broker.connect("a", listener="IN")

    (end,) = bare(broker, b"GET / HTTP/1.1")

    assert isinstance(end, Close)


def test_the_journal_has_the_principal_and_shows_no_secret(broker: Broker) -> None:
    log_in_plain(broker, "alice", "secret")
    send_handshake(broker, version=0, connection="b")
    broker.core.submit(broker.connect("b"), b"\0bob\0sesame", broker.now_ms)
    broker.core.take_output()
    broker.call(MetadataRequest(topics=[]), 13, connection="a")
    broker.call(MetadataRequest(topics=[]), 13, connection="b")

    exchanges = list(broker.core.journal)
    assert [exchange.principal for exchange in exchanges[-2:]] == ["User:alice", "User:bob"]
    assert [exchange.api_name for exchange in exchanges if exchange.api_key == -1] == ["SaslToken"]
    shown = str([exchange.to_json() for exchange in exchanges])
    assert "secret" not in shown
    assert "sesame" not in shown
    assert "sesame" not in repr(broker.core.state.security.sasl_listener("IN"))


def test_an_expired_session_accepts_only_a_handshake() -> None:
    broker = Broker(config={**CONFIG, "listener.name.in.plain.connections.max.reauth.ms": "5000"})
    assert log_in_plain(broker, "alice", "secret").session_lifetime_ms == 5_000

    broker.advance(4_999)
    assert broker.call(ApiVersionsRequest(), 2) is not None
    broker.advance(1)
    assert log_in_plain(broker, "alice", "secret").session_lifetime_ms == 5_000
    broker.advance(5_000)
    broker.send(ApiVersionsRequest(), 2)
    assert broker.closed["a"] == "the session of User:alice has ended"


def test_the_lifetime_of_a_mechanism_overrides_that_of_the_listener() -> None:
    key = "connections.max.reauth.ms"
    own = {f"listener.name.in.plain.{key}": "1", f"listener.name.in.{key}": "2", key: "3"}
    security = Broker(config={**CONFIG, **own}).core.state.security

    assert security.sasl_listener("IN").max_reauth_ms == {"PLAIN": 1, "SCRAM-SHA-256": 2, "SCRAM-SHA-512": 2}


def test_every_step_except_the_last_has_a_transition() -> None:
    assert set(TRANSITIONS) == set(Step)
    assert [step for step, targets in TRANSITIONS.items() if not targets] == [Step.FAILED]


def test_an_unauthorized_description_of_all_users_gets_no_response_as_in_4_3_0() -> None:
    acls = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    broker = Broker(config={**CONFIG, **acls, "connections.max.idle.ms": "5000"})
    log_in_plain(broker, "alice", "secret")

    assert broker.call(DescribeUserScramCredentialsRequest(users=None), 0) is None
    broker.advance(4_999)
    assert broker.closed == {}
    broker.advance(1)
    assert "4.3.0 never responds" in broker.closed["a"]


def test_random_bytes_do_not_break_the_authenticator() -> None:
    """Handshakes, tokens and requests in any order, some with a bit turned, on a clock that jumps."""
    broker = Broker(config={**CONFIG, "connections.max.reauth.ms": "5000"})
    requests: list[msgspec.Struct] = [SaslHandshakeRequest(name) for name in ("PLAIN", "SCRAM-SHA-256", "X")]
    tokens = (b"\0alice\0secret", b"", b"\xff\0", b"n,,n=a,r=b")
    requests += [SaslAuthenticateRequest(auth_bytes=token) for token in tokens]
    frames = [headers.encode_request(request, version, 1, "c") for request in requests for version in (0, 1)]
    frames += [headers.encode_request(MetadataRequest(topics=[]), 13, 1, "c"), b"\0alice\0secret", b""]
    rng = random.Random(3)
    for _ in range(500):
        number = broker.core.connect(0, "127.0.0.1", 1, listener="IN")
        for _ in range(rng.randint(1, 6)):
            frame = bytearray(rng.choice(frames))
            if frame and rng.random() < 0.2:
                frame[rng.randrange(len(frame))] ^= 1 << rng.randrange(8)
            broker.core.submit(number, bytes(frame), broker.now_ms)
            broker.advance(rng.choice((0, 0, 1, 100, 1_000, 6_000)))
        broker.core.disconnect(number, broker.now_ms)

    assert broker.core.parked_count == 0
    principals = {exchange.principal for exchange in broker.core.journal}
    assert principals == {"User:ANONYMOUS", "User:alice"}
