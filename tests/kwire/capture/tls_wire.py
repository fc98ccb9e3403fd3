"""TLS connections made by OpenSSL in memory, with the key log that it writes, as packets of a capture."""

from __future__ import annotations

import datetime
import ssl
import struct
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from kwire.headers import encode_request, encode_response
from kwire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from tests.kwire.capture.wire import Talk, Wire


class Recording(NamedTuple):
    """What was on the wire, and what opens it."""

    wires: list[Wire]
    keys: str


@cache
def _certificate(kind: str) -> bytes:
    """A key and its self-signed certificate."""
    key = rsa.generate_private_key(65_537, 2048) if kind == "rsa" else ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    start = datetime.datetime(2020, 1, 1)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(start).not_valid_after(datetime.datetime(2099, 1, 1))
    certificate = builder.sign(key, hashes.SHA256())
    form = serialization.PrivateFormat.PKCS8
    secret = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    return secret + certificate.public_bytes(serialization.Encoding.PEM)


class Connection:
    """A client and a server, joined in memory; whatever one writes is a packet (or several) to the other."""

    def __init__(
        self, version: ssl.TLSVersion, ciphers: str | None = None, *, kind: str = "ecdsa", talk: Talk | None = None
    ) -> None:
        """The handshake is done, and captured."""
        self.talk = talk or Talk().open()
        with TemporaryDirectory() as folder:
            self._shake_hands(version, ciphers, kind, Path(folder))
            # The log has all secrets once the handshake is done.
            self.keys = (Path(folder) / "keys").read_text()
        # Tickets come behind the handshake.
        self.drain()

    def _shake_hands(self, version: ssl.TLSVersion, ciphers: str | None, kind: str, folder: Path) -> None:
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
        """Carry what was written to the other side, and capture it."""
        to_server, from_server, to_client, from_client = self._bios
        asked, answered = from_client.read(), from_server.read()
        if asked:
            to_server.write(asked)
            self.talk.client_bytes(asked)
        if answered:
            to_client.write(answered)
            self.talk.server_bytes(answered)

    def drain(self) -> None:
        """Both sides read what there is."""
        for each in (self.client, self.server):
            try:
                while each.read(65_536):
                    pass
            except ssl.SSLWantReadError:
                pass

    def exchange(self, asked: bytes, answered: bytes) -> None:
        """One request and its response, as frames."""
        self.client.write(struct.pack(">i", len(asked)) + asked)
        self.flush()
        self.server.write(struct.pack(">i", len(answered)) + answered)
        self.flush()
        self.drain()


def kafka(connection: Connection, count: int = 5) -> None:
    """A client that asks for versions, and then for metadata, now and then with much text."""
    connection.exchange(
        encode_request(ApiVersionsRequest("tests", "1"), 3, 0, "me"), encode_response(ApiVersionsResponse(), 3, 0)
    )
    for number in range(1, count):
        client_id = "me" if number % 3 else "me" * 9000
        response = MetadataResponse(cluster_id="x" * (40 if number % 4 else 30_000))
        connection.exchange(
            encode_request(MetadataRequest(topics=None), 12, number, client_id), encode_response(response, 12, number)
        )


def recorded(version: ssl.TLSVersion, ciphers: str | None = None, *, kind: str = "ecdsa", count: int = 5) -> Recording:
    """A Kafka conversation in TLS."""
    connection = Connection(version, ciphers, kind=kind)
    kafka(connection, count)
    return Recording(connection.talk.wires, connection.keys)
