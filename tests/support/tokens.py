"""JSON Web Tokens for tests: parts, unsecured tokens, and key sets of given keys."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import jwt

#: 2023-11-14T22:13:20Z
NOW_S = 1_700_000_000
NOW_MS = NOW_S * 1_000


def encode_part(value: object) -> str:
    """A value as JSON in base64url, or bytes in base64url."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unsecured_token(claims: object, header: object = None, signature: str = "") -> str:
    """A token without a signature, or with one that is none."""
    return f"{encode_part({'alg': 'none'} if header is None else header)}.{encode_part(claims)}.{signature}"


def bearer_message(token: str) -> bytes:
    """The first message of OAUTHBEARER."""
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()


def key_set(*keys: tuple[str, Any, Mapping[str, object]]) -> bytes:
    """A JWKS: of each key an algorithm of its type, the public key, and members to change; None removes one."""
    rows = []
    for algorithm, key, changes in keys:
        row = json.loads(jwt.get_algorithm_by_name(algorithm).to_jwk(key))
        row = {**row, "use": "sig", "key_ops": ["verify"], **changes}
        rows.append({name: value for name, value in row.items() if value is not None})
    return json.dumps({"keys": rows}).encode()
