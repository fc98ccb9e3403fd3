"""Broker configuration and logins for tests of SASL."""

from __future__ import annotations

from typing import Any

from kwire.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.brokers.broker import Broker

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
CONFIG = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,IN:SASL_PLAINTEXT",
    "listener.name.in.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.in.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_alice="secret" user_bob="sesame";',
    "listener.name.in.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
    "listener.name.in.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
}


def send_handshake(broker: Broker, mechanism: str = "PLAIN", *, version: int = 1, connection: str = "a") -> Any:
    """Send the SASL handshake of a connection to the listener IN."""
    broker.connect(connection, listener="IN")
    return broker.call(SaslHandshakeRequest(mechanism), version, connection=connection)


def log_in_plain(broker: Broker, user: str, password: str, *, connection: str = "a") -> Any:
    """Log in by PLAIN. Returns: the response."""
    send_handshake(broker, connection=connection)
    token = f"\0{user}\0{password}".encode()
    return broker.call(SaslAuthenticateRequest(auth_bytes=token), 2, connection=connection)
