"""SASL/PLAIN authenticates; no error contains a password."""

from __future__ import annotations

import pytest

from kwire.client import AuthenticationFailed, Client
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kwire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.support.messages.scripted_broker import Peer, ScriptedBroker

SECRET = "correct horse"


def test_sasl_plain_sends_user_and_password_after_the_handshake() -> None:
    seen = []

    def script(peer: Peer) -> None:
        peer.welcome()
        seen.append((peer.request(), peer.last.request_api_version))
        peer.answer(SaslHandshakeResponse(mechanisms=("PLAIN",)))
        seen.append((peer.request(), peer.last.request_api_version))
        peer.answer(SaslAuthenticateResponse())
        peer.reply(MetadataResponse(cluster_id="in"))

    with ScriptedBroker(script) as broker, Client(broker.bootstrap, sasl=("käthe", SECRET)) as client:
        assert client.send(MetadataRequest()).cluster_id == "in"

    token = f"\0käthe\0{SECRET}".encode()
    assert seen == [(SaslHandshakeRequest(mechanism="PLAIN"), 1), (SaslAuthenticateRequest(auth_bytes=token), 2)]


def test_the_error_of_an_unsupported_mechanism_lists_those_of_the_broker() -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        peer.reply(SaslHandshakeResponse(error_code=33, mechanisms=("SCRAM-SHA-256", "GSSAPI")))
        assert peer.until_closed()

    reason = "UNSUPPORTED_SASL_MECHANISM; it has SCRAM-SHA-256, GSSAPI"
    with ScriptedBroker(script) as broker, pytest.raises(AuthenticationFailed, match=reason):
        Client(broker.bootstrap, sasl=("user", SECRET))


def test_the_error_of_a_wrong_password_has_the_reason_of_the_broker_but_not_the_password() -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        peer.reply(SaslHandshakeResponse(mechanisms=("PLAIN",)))
        peer.reply(SaslAuthenticateResponse(error_code=58, error_message="invalid credentials"))
        assert peer.until_closed()

    reason = "SASL_AUTHENTICATION_FAILED: invalid credentials"
    with ScriptedBroker(script) as broker, pytest.raises(AuthenticationFailed, match=reason) as caught:
        Client(f"{broker.bootstrap},127.0.0.1:1", sasl=("user", SECRET))

    assert SECRET not in str(caught.value)
