"""Reading the parts of a JSON Web Token: base64url and JSON, with bounds. Source: RFC 7515, RFC 7519."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Any, NoReturn

from mockbroker.state.security.oauthbearer import TokenRejected

_BASE64URL = re.compile(rb"[A-Za-z0-9_-]*={0,2}")


def decode_base64url(part: str, name: str) -> bytes:
    """The bytes of a part, with padding or without. Raises: TokenRejected that names the part."""
    data = part.encode("ascii", "replace")
    bare = data.rstrip(b"=")
    if _BASE64URL.fullmatch(data) is None or len(bare) % 4 == 1 or (data != bare and len(data) % 4):
        raise TokenRejected(f"the {name} is not base64url")
    return base64.urlsafe_b64decode(bare + b"=" * (-len(bare) % 4))


def parse_json(data: bytes, name: str, *, unique_names: bool) -> Any:
    """Parse JSON as UTF-8. unique_names: refuse a name that stands twice in an object; else the last one counts.

    Raises: TokenRejected that names the part; the values are not shown.
    """

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        collected = dict(pairs)
        if unique_names and len(collected) < len(pairs):
            raise ValueError("a name twice")
        return collected

    hook: Callable[[list[tuple[str, Any]]], dict[str, Any]] = collect
    try:
        return json.loads(data.decode(), object_pairs_hook=hook, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise TokenRejected(f"the {name} is not JSON") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def is_number(value: object) -> bool:
    """Whether a JSON value is a number; in Python a truth value is one too."""
    return isinstance(value, int | float) and not isinstance(value, bool)
