"""SCRAM keys, hashes and names as Kafka uses them, for client and broker. Source: RFC 5802, KIP-84."""

from __future__ import annotations

import hashlib
import hmac
from enum import Enum

ITERATIONS_MIN = 4096
"""The lowest number of iterations that Kafka accepts."""


class ScramMechanism(Enum):
    """Kafka's two SCRAM mechanisms: number on the wire, and hash function."""

    SHA_256 = (1, "sha256")
    SHA_512 = (2, "sha512")

    def __init__(self, number: int, hash_name: str) -> None:
        self.number = number
        self.hash_name = hash_name

    @property
    def mechanism_name(self) -> str:
        """Its name as a SASL mechanism: SCRAM-SHA-256."""
        return f"SCRAM-{self.name.replace('_', '-')}"

    def digest(self, data: bytes) -> bytes:
        """The hash."""
        return hashlib.new(self.hash_name, data).digest()

    def mac(self, key: bytes, data: bytes) -> bytes:
        """HMAC with that hash."""
        return hmac.digest(key, data, self.hash_name)

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Hi() of RFC 5802; Kafka uses the UTF-8 of the password, without SASLprep."""
        return hashlib.pbkdf2_hmac(self.hash_name, password.encode(), salt, iterations)

    def client_key(self, salted_password: bytes) -> bytes:
        """The key that a client must prove to have."""
        return self.mac(salted_password, b"Client Key")

    def stored_key(self, salted_password: bytes) -> bytes:
        """The hash of the client key, which a broker stores."""
        return self.digest(self.client_key(salted_password))

    def server_key(self, salted_password: bytes) -> bytes:
        """The key that a broker must prove to have."""
        return self.mac(salted_password, b"Server Key")


def find_mechanism(name: str) -> ScramMechanism | None:
    """The mechanism of a SASL name, None if it is not a SCRAM mechanism."""
    return next((mechanism for mechanism in ScramMechanism if mechanism.mechanism_name == name), None)


def xor_bytes(first: bytes, second: bytes) -> bytes:
    """The bitwise exclusive or of two byte strings of equal length."""
    return bytes(a ^ b for a, b in zip(first, second, strict=True))


def to_saslname(user: str) -> str:
    """A user name as in a message, with comma and equals sign escaped."""
    return user.replace("=", "=3D").replace(",", "=2C")


def from_saslname(saslname: str) -> str:
    """The user name of an escaped name in a message."""
    return saslname.replace("=2C", ",").replace("=3D", "=")
