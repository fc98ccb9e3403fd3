"""TLS handshakes of clients: one log line for each that fails, which event loops leave out."""

from __future__ import annotations

import ssl

from mockbroker.log.subjects import CONNECTIONS
from mockbroker.net.acceptor import client_address

#: What usually causes an error, by its reason in OpenSSL.
_CAUSES = {
    "HTTP_REQUEST": "the client sent HTTP without TLS",
    "WRONG_VERSION_NUMBER": "the client sent no TLS; it may be configured for PLAINTEXT",
    "UNSUPPORTED_PROTOCOL": "the client has no version of TLS that is supported",
    "NO_SHARED_CIPHER": "client and broker have no cipher suite in common",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client sent no certificate, which ssl.client.auth requires",
    "CERTIFICATE_VERIFY_FAILED": "the client's certificate is not signed by one of ssl.truststore",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the broker's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client refused the broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client refused the broker's certificate",
}


def logged_handshakes(listener_name: str) -> type[ssl.SSLObject]:
    """The class for `SSLContext.sslobject_class` of a listener."""

    class LoggedHandshake(ssl.SSLObject):
        """The TLS of one connection."""

        def do_handshake(self) -> None:
            """Continue the handshake. Raises: SSLError as the base class."""
            try:
                super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError as error:
                host, port = client_address.get()
                CONNECTIONS.warning(
                    "listener %(listener)s closes %(client)s: TLS handshake failed: %(reason)s",
                    about=host,
                    listener=listener_name,
                    client=f"{host}:{port}",
                    reason=describe(error),
                )
                raise

    return LoggedHandshake


def describe(error: ssl.SSLError) -> str:
    """The reason of a failed handshake, with its usual cause."""
    reason = error.reason or type(error).__name__
    cause = _CAUSES.get(reason)
    return f"{reason} ({cause})" if cause else reason
