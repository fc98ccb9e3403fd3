"""What must not be shown: credentials and sensitive configuration as `***`, record payloads as a summary.

One room for all who show messages: captures, journal, report and page. It works on Kafka's JSON form of a message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kwire import codec
from kwire.payload import hide_records

if TYPE_CHECKING:
    import msgspec

MASK = "***"

Json = object
Path = tuple[str | int, ...]

# Fields that are secrets themselves, by message. An envelope holds a whole request or response of another client.
SECRET_FIELDS: Mapping[str, frozenset[str]] = {
    "SaslAuthenticateRequest": frozenset({"authBytes"}),
    "SaslAuthenticateResponse": frozenset({"authBytes"}),
    "CreateDelegationTokenResponse": frozenset({"hmac"}),
    "RenewDelegationTokenRequest": frozenset({"hmac"}),
    "ExpireDelegationTokenRequest": frozenset({"hmac"}),
    "DescribeDelegationTokenResponse": frozenset({"hmac"}),
    "AlterUserScramCredentialsRequest": frozenset({"salt", "saltedPassword"}),
    "EnvelopeRequest": frozenset({"requestData", "requestPrincipal"}),
    "EnvelopeResponse": frozenset({"responseData"}),
}

# Messages that carry configuration entries: objects with `name`, `value` and perhaps `isSensitive`.
CONFIG_MESSAGES = frozenset(
    {
        "AlterConfigsRequest",
        "AlterConfigsResponse",
        "CreateTopicsRequest",
        "CreateTopicsResponse",
        "DescribeConfigsResponse",
        "IncrementalAlterConfigsRequest",
        "IncrementalAlterConfigsResponse",
    }
)

# Kafka's own sensitive names (those of type PASSWORD), and what connectors and other brokers call theirs.
_SENSITIVE = r"(?:password|passphrase|secret|token|jaas|credential|private\.?key|keystore\.key|certificate|api\.?key)"
_SENSITIVE_NAME = re.compile(_SENSITIVE, re.IGNORECASE)
# Kafka's ConfigException quotes the value that it refuses: "Invalid value VALUE for configuration NAME: reason".
_QUOTED_VALUE = re.compile(rf"(?is)(invalid value ).*( for configuration \S*{_SENSITIVE})")


def is_sensitive_config(name: str) -> bool:
    """Whether a configuration of this name holds a secret."""
    return _SENSITIVE_NAME.search(name) is not None


def shown(
    message: msgspec.Struct,
    version: int,
    *,
    edition: str | None = None,
    show_secrets: bool = False,
    payload: bool = False,
) -> dict[str, object]:
    """The message in Kafka's JSON form, as it may be shown: secrets masked, records as a summary, unless asked for."""
    if payload:
        tree: dict[str, object] = codec.to_json(message, version, edition=edition)
    else:
        with hide_records(message) as fill_in:
            tree = codec.to_json(message, version, edition=edition)
        fill_in(tree)
    return tree if show_secrets else redact(tree, type(message).__name__)


def redact(tree: dict[str, object], name: str) -> dict[str, object]:
    """The JSON form of the message `name` with every secret as `***`. The given tree is left as it is."""
    paths = secret_paths(tree, name)
    if paths:
        masked = _masked(tree, paths)
        assert isinstance(masked, dict)
        return masked
    return tree


def secret_paths(tree: dict[str, object], name: str) -> set[Path]:
    """Where the secrets of a message lie, as keys and indexes from the top of its JSON form."""
    fields = SECRET_FIELDS.get(name, frozenset())
    if not fields and name not in CONFIG_MESSAGES:
        return set()
    return set(_secrets(tree, (), fields, is_sensitive=False))


def _secrets(node: Json, path: Path, fields: frozenset[str], *, is_sensitive: bool) -> Iterator[Path]:
    if isinstance(node, list):
        for index, item in enumerate(node):
            yield from _secrets(item, (*path, index), fields, is_sensitive=is_sensitive)
    elif isinstance(node, dict):
        # The synonyms inside a sensitive entry are as sensitive, whatever their names are.
        name = node.get("name")
        is_sensitive = is_sensitive or node.get("isSensitive") is True
        is_sensitive = is_sensitive or ("value" in node and isinstance(name, str) and is_sensitive_config(name))
        for key, item in node.items():
            is_secret = key in fields or (key == "value" and is_sensitive)
            if (is_secret and item is not None) or (key == "errorMessage" and _quotes_secret(item)):
                yield (*path, key)
            else:
                yield from _secrets(item, (*path, key), fields, is_sensitive=is_sensitive)


def _quotes_secret(text: Json) -> bool:
    return isinstance(text, str) and _QUOTED_VALUE.search(text) is not None


def redact_text(text: str) -> str:
    """A message for people in which Kafka quotes a sensitive value, without that value."""
    return _QUOTED_VALUE.sub(rf"\g<1>{MASK}\g<2>", text)


def _masked(node: Json, paths: set[Path], path: Path = ()) -> Json:
    if path in paths:
        if path[-1] == "errorMessage" and isinstance(node, str):
            return redact_text(node)
        return MASK
    if isinstance(node, dict):
        return {key: _masked(item, paths, (*path, key)) for key, item in node.items()}
    if isinstance(node, list):
        return [_masked(item, paths, (*path, index)) for index, item in enumerate(node)]
    return node
