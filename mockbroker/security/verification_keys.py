"""Public keys of a JSON Web Key Set, from a file or fetched over HTTP, and the choice of the one for a token.

Source: RFC 7517, KIP-768; Kafka's JwksFileVerificationKeyResolver and RefreshingHttpsJwks.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from kwire.errors import MissingExtra
from mockbroker.config.keys import ConfigError
from mockbroker.state.security.oauthbearer import TokenRejected

JWKS_BYTES_MAX = 1 << 20
_KEYS_MAX = 1_000
_RSA_BITS_MIN = 2_048
#: The algorithms of each type of key: a key of one type verifies no signature of another.
_ALGORITHMS = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
    "oct": ("HS256", "HS384", "HS512"),
}
_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
#: How long a key id that was not found is not asked for again, and how many such ids are remembered, as in Kafka.
_MISSING_KEY_MS = 60_000
_MISSING_KEYS_MAX = 16
_KEY_ID_MAX = 1_000


class VerificationKey(NamedTuple):
    """A key of a set. algorithm: the only one it is for, if the set says so. bits: its size. key: for the library."""

    key_id: str | None
    key_type: str
    algorithm: str | None
    curve: str | None
    bits: int
    key: Any

    def __repr__(self) -> str:
        return f"VerificationKey({self.key_id!r}, {self.key_type!r})"


class VerificationKeys(Protocol):
    """Where the keys come from."""

    def find_key(self, key_id: str | None, algorithm: str, *, now_ms: int) -> VerificationKey:
        """The key for a token. Raises: TokenRejected, also when the keys cannot be read."""


class JwksFile:
    """The keys of a file, which is read again when it has changed. Raises: ConfigError if it cannot be used."""

    def __init__(self, name: str, path: Path) -> None:
        self._path = path
        self._signature: tuple[int, int, int] | None = None
        self._keys: Sequence[VerificationKey] = ()
        try:
            self._read_if_changed()
        except (OSError, ValueError) as error:
            raise ConfigError(f"{name}: {path} cannot be used: {error}") from error

    def find_key(self, key_id: str | None, algorithm: str, *, now_ms: int) -> VerificationKey:
        """The key for a token. Raises: TokenRejected."""
        try:
            self._read_if_changed()
        except (OSError, ValueError) as error:
            raise TokenRejected(f"the JWKS {self._path} cannot be used: {error}") from error
        return _require_key(self._keys, key_id, algorithm)

    def _read_if_changed(self) -> None:
        status = os.stat(self._path)
        signature = status.st_mtime_ns, status.st_size, status.st_ino
        if signature != self._signature:
            with self._path.open("rb") as file:
                self._keys = parse_keys(file.read(JWKS_BYTES_MAX + 1))
            self._signature = signature


class FetchedKeys:
    """The keys of a URL. The network layer fetches them when they are due: nothing here opens a connection.

    refresh_ms: between regular refreshes. backoff_ms, backoff_max_ms: the first pause between attempts of a refresh,
    and how long one may last.
    """

    def __init__(self, url: str, *, refresh_ms: int, backoff_ms: int, backoff_max_ms: int) -> None:
        self.url = url
        self.refresh_ms = refresh_ms
        self.backoff_ms = backoff_ms
        self.backoff_max_ms = backoff_max_ms
        self.due_ms: int | None = None
        self._keys: Sequence[VerificationKey] | None = None
        self._missing: dict[str, int] = {}

    def find_key(self, key_id: str | None, algorithm: str, *, now_ms: int) -> VerificationKey:
        """The key for a token; an id that the set lacks makes a refresh due, once a minute. Raises: TokenRejected."""
        if self._keys is None:
            raise TokenRejected(f"the JWKS of {self.url} has not been fetched")
        try:
            return _require_key(self._keys, key_id, algorithm)
        except TokenRejected:
            if key_id is not None and len(key_id) <= _KEY_ID_MAX:
                self._request_refresh(key_id, now_ms)
            raise

    def _request_refresh(self, key_id: str, now_ms: int) -> None:
        self._missing = {known: until_ms for known, until_ms in self._missing.items() if until_ms > now_ms}
        # Kafka forgets the oldest id of a full list, so that a client with random ids keeps it refreshing.
        if key_id not in self._missing and len(self._missing) < _MISSING_KEYS_MAX:
            self._missing[key_id] = now_ms + _MISSING_KEY_MS
            self.due_ms = now_ms

    def set_keys(self, data: bytes, *, now_ms: int) -> None:
        """Replace the keys by a set that was fetched. Raises: ValueError; then the keys are as before."""
        self._keys = parse_keys(data)
        found = {key.key_id for key in self._keys}
        self._missing = {key_id: until_ms for key_id, until_ms in self._missing.items() if key_id not in found}
        self.due_ms = now_ms + self.refresh_ms

    def postpone(self, *, now_ms: int) -> None:
        """Keep the keys until the next regular refresh: fetching them has failed."""
        self.due_ms = now_ms + self.refresh_ms

    def copy_from(self, other: FetchedKeys) -> None:
        """Take over the keys that another object has fetched from the same URL."""
        self._keys, self.due_ms = other._keys, other.due_ms


def parse_keys(data: bytes) -> list[VerificationKey]:
    """The usable keys of a set; keys of unknown types are left out, as by Kafka.

    Raises: ValueError for anything but a set of keys, and one that is too large; MissingExtra without PyJWT.
    """
    if len(data) > JWKS_BYTES_MAX:
        raise ValueError(f"a JWKS may have {JWKS_BYTES_MAX} bytes")
    try:
        rows = json.loads(data)["keys"]
    except (ValueError, RecursionError, KeyError, TypeError):
        raise ValueError("not a JWKS: expected a JSON object with a list of keys") from None
    if not isinstance(rows, list) or len(rows) > _KEYS_MAX:
        raise ValueError(f"not a JWKS: expected a list of at most {_KEYS_MAX} keys")
    keys = (_parse_key(row) for row in rows if isinstance(row, dict))
    return [key for key in keys if key is not None]


def _parse_key(row: dict[str, Any]) -> VerificationKey | None:
    """A key that may verify signatures; None for others and damaged ones."""
    try:
        from jwt import InvalidKeyError, algorithms
    except ImportError as error:
        raise MissingExtra("OAUTHBEARER with signed tokens", "oauth") from error
    readers: dict[str, Any] = {
        "RSA": algorithms.RSAAlgorithm,
        "EC": algorithms.ECAlgorithm,
        "OKP": algorithms.OKPAlgorithm,
        "oct": algorithms.HMACAlgorithm,
    }
    key_type, operations = row.get("kty"), row.get("key_ops", ["verify"])
    reader = readers.get(key_type) if isinstance(key_type, str) else None
    if reader is None or row.get("use", "sig") != "sig" or not isinstance(operations, list):
        return None
    if "verify" not in operations:
        return None
    try:
        key: Any = reader.from_jwk(row)
    except (InvalidKeyError, ValueError, TypeError, KeyError):
        return None
    key = key.public_key() if hasattr(key, "public_key") else key
    bits = 8 * len(key) if isinstance(key, bytes) else int(getattr(key, "key_size", 0))
    key_id, algorithm, curve = row.get("kid"), row.get("alg"), row.get("crv")
    return VerificationKey(
        key_id if isinstance(key_id, str) else None,
        str(key_type),
        algorithm if isinstance(algorithm, str) else None,
        curve if isinstance(curve, str) else None,
        bits,
        key,
    )


def _require_key(keys: Sequence[VerificationKey], key_id: str | None, algorithm: str) -> VerificationKey:
    """The first key that fits, as jose4j selects it. Raises: TokenRejected."""
    key_type = next((key_type for key_type, names in _ALGORITHMS.items() if algorithm in names), None)
    if key_type is None:
        raise TokenRejected(f"its algorithm {algorithm[:20]!r} is not one for signatures")
    found = [key for key in keys if key.key_type == key_type and key_id in (None, key.key_id)]
    if len(found) > 1:
        found = [key for key in found if key.algorithm in (None, algorithm)]
    if key_type == "EC":
        found = [key for key in found if key.curve == _CURVES[algorithm]]
    if not found:
        about = "" if key_id is None else f" with the id {key_id[:100]!r}"
        raise TokenRejected(f"the JWKS has no key{about} for {algorithm}")
    key = found[0]
    bits_min = _RSA_BITS_MIN if key_type == "RSA" else int(algorithm[2:]) if key_type == "oct" else 0
    if key.bits < bits_min:
        raise TokenRejected(f"the key in the JWKS has {key.bits} bits, and {algorithm} needs {bits_min}")
    return key
