"""SCRAM's arithmetic and names, as Kafka uses them: what client and broker have in common. Source: RFC 5802, KIP-84."""

from __future__ import annotations

import hashlib
import hmac
from enum import Enum

ITERATIONS_MIN = 4096
"""The fewest rounds that Kafka takes."""


class ScramMechanism(Enum):
    """The two mechanisms of Kafka: number on the wire, and hash function."""

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
        """Hi() of RFC 5802; Kafka takes the password's UTF-8 as it is, without SASLprep."""
        return hashlib.pbkdf2_hmac(self.hash_name, password.encode(), salt, iterations)

    def client_key(self, salted_password: bytes) -> bytes:
        """What a client proves that it has."""
        return self.mac(salted_password, b"Client Key")

    def stored_key(self, salted_password: bytes) -> bytes:
        """What a broker keeps of it."""
        return self.digest(self.client_key(salted_password))

    def server_key(self, salted_password: bytes) -> bytes:
        """What a broker proves that it has."""
        return self.mac(salted_password, b"Server Key")


def mechanism_of(name: str) -> ScramMechanism | None:
    """The mechanism of a SASL name, None if it is none of SCRAM."""
    return next((one for one in ScramMechanism if one.mechanism_name == name), None)


def xor(first: bytes, second: bytes) -> bytes:
    """Two texts of one length, bit by bit."""
    return bytes(a ^ b for a, b in zip(first, second, strict=True))


def to_saslname(user: str) -> str:
    """A user name as it stands in a message: comma and equals sign are escaped."""
    return user.replace("=", "=3D").replace(",", "=2C")


def from_saslname(saslname: str) -> str:
    """The user name of a message."""
    return saslname.replace("=2C", ",").replace("=3D", "=")
