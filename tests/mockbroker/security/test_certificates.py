"""Certificates that the strictest clients accept."""

from __future__ import annotations

import ssl
from pathlib import Path

from mockbroker.security.certificates import create_certificates


def shake_hands(client: ssl.SSLContext, broker: ssl.SSLContext, host: str) -> None:
    """A TLS handshake in memory. Raises: ssl.SSLError."""
    to_client, to_broker = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_broker, server_hostname=host),
        broker.wrap_bio(to_broker, to_client, server_side=True),
    ]
    for _ in range(4):  # Each round answers the other side; TLS 1.3 needs three.
        for side in list(sides):
            try:
                side.do_handshake()
                sides.remove(side)
            except ssl.SSLWantReadError:
                continue
    assert sides == []


def test_a_client_and_a_broker_that_check_strictly_accept_each_other(tmp_path: Path) -> None:
    """As Python's contexts do since 3.13."""
    made = create_certificates(tmp_path, host="kafka.test")
    client = ssl.create_default_context(cafile=made.authority)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    client.load_cert_chain(made.client, made.client_key)
    broker = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=made.authority)
    broker.verify_flags |= ssl.VERIFY_X509_STRICT
    broker.verify_mode = ssl.CERT_REQUIRED
    broker.load_cert_chain(made.broker)

    for host in ("localhost", "127.0.0.1", "::1", "kafka.test"):
        shake_hands(client, broker, host)
