"""Builders of TLS captures: connections by OpenSSL in memory, with the key log that it writes."""

from __future__ import annotations

import datetime
import ssl
import struct
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from kwire.capture.model import Row
from kwire.headers import encode_request, encode_response
from kwire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.captures.capture_files import CapturedConnection, CapturedPacket, build_pcap, read_capture_rows


class TlsRecording(NamedTuple):
    """The packets of a TLS connection, and its key log."""

    packets: list[CapturedPacket]
    key_log: str

    def read_rows(self, packets: Sequence[CapturedPacket] | None = None, *, more_keys: str = "") -> list[Row]:
        """The rows of these packets, or of all, decrypted with the key log and with more keys."""
        chosen = self.packets if packets is None else packets
        return read_capture_rows(build_pcap(chosen), tls_keylog=self.key_log + more_keys)


@cache
def _certificate(kind: str) -> bytes:
    """Return a key and its self-signed certificate, as PEM."""
    key = rsa.generate_private_key(65_537, 2048) if kind == "rsa" else ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    start = datetime.datetime(2020, 1, 1)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(start).not_valid_after(datetime.datetime(2099, 1, 1))
    certificate = builder.sign(key, hashes.SHA256())
    form = serialization.PrivateFormat.PKCS8
    secret = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    return secret + certificate.public_bytes(serialization.Encoding.PEM)


class TlsConnection:
    """A client and a server, connected in memory; all that one writes becomes packets to the other."""

    def __init__(
        self,
        version: ssl.TLSVersion,
        ciphers: str | None = None,
        *,
        kind: str = "ecdsa",
        talk: CapturedConnection | None = None,
    ) -> None:
        """Perform and capture the handshake."""
        self.capture = talk or CapturedConnection().open()
        with TemporaryDirectory() as folder:
            self._handshake(version, ciphers, kind, Path(folder))
            # The log has all secrets after the handshake.
            self.key_log = (Path(folder) / "keys").read_text()
        # Session tickets follow the handshake.
        self.drain()

    def _handshake(self, version: ssl.TLSVersion, ciphers: str | None, kind: str, folder: Path) -> None:
        (folder / "pem").write_bytes(_certificate(kind))
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(folder / "pem")
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
        client.keylog_filename = str(folder / "keys")
        for context in (server, client):
            context.minimum_version = context.maximum_version = version
            if ciphers:
                context.set_ciphers(ciphers)
        self._bios = [ssl.MemoryBIO() for _ in range(4)]
        to_server, from_server, to_client, from_client = self._bios
        self.server = server.wrap_bio(to_server, from_server, server_side=True)
        self.client = client.wrap_bio(to_client, from_client)
        done: set[object] = set()
        while len(done) < 2:
            for each in (self.client, self.server):
                try:
                    each.do_handshake()
                    done.add(each)
                except ssl.SSLWantReadError:
                    pass
                self.flush()

    def flush(self) -> None:
        """Transfer the written data to the other side, and capture it."""
        to_server, from_server, to_client, from_client = self._bios
        requests, responses = from_client.read(), from_server.read()
        if requests:
            to_server.write(requests)
            self.capture.send_client_bytes(requests)
        if responses:
            to_client.write(responses)
            self.capture.send_server_bytes(responses)

    def drain(self) -> None:
        """Read all data on both sides."""
        for each in (self.client, self.server):
            try:
                while each.read(65_536):
                    pass
            except ssl.SSLWantReadError:
                pass

    def exchange(self, requests: bytes, responses: bytes) -> None:
        """Send one request and its response, as frames."""
        self.client.write(struct.pack(">i", len(requests)) + requests)
        self.flush()
        self.server.write(struct.pack(">i", len(responses)) + responses)
        self.flush()
        self.drain()


def exchange_messages(connection: TlsConnection, count: int = 5) -> None:
    """Send ApiVersions and then Metadata requests with responses, some of them large."""
    request = encode_request(ApiVersionsRequest("tests", "1"), 3, 0, "me")
    connection.exchange(request, encode_response(ApiVersionsResponse(), 3, 0))
    for number in range(1, count):
        client_id = "me" if number % 3 else "me" * 9000
        response = MetadataResponse(cluster_id="x" * (40 if number % 4 else 30_000))
        connection.exchange(
            encode_request(MetadataRequest(topics=None), 12, number, client_id), encode_response(response, 12, number)
        )


def record_tls_capture(
    version: ssl.TLSVersion, ciphers: str | None = None, *, kind: str = "ecdsa", count: int = 5
) -> TlsRecording:
    """Record a Kafka conversation in TLS."""
    connection = TlsConnection(version, ciphers, kind=kind)
    exchange_messages(connection, count)
    return TlsRecording(connection.capture.packets, connection.key_log)
