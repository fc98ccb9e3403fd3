"""Redaction of messages: credentials and sensitive configurations become `***`, record payloads a summary.

Used wherever messages are shown: captures, journal, report. It works on Kafka's JSON form of a message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, cast

from kwire import codec
from kwire.payload import add_summaries

if TYPE_CHECKING:
    import msgspec

MASK = "***"

Json = object
Path = tuple[str | int, ...]

# Secret fields by message. An envelope holds a whole request or response of another client.
SECRET_FIELDS: Mapping[str, frozenset[str]] = {
    "SaslAuthenticateRequest": frozenset({"authBytes"}),
    "SaslAuthenticateResponse": frozenset({"authBytes"}),
    "CreateDelegationTokenResponse": frozenset({"hmac"}),
    "RenewDelegationTokenRequest": frozenset({"hmac"}),
    "ExpireDelegationTokenRequest": frozenset({"hmac"}),
    "DescribeDelegationTokenResponse": frozenset({"hmac"}),
    "AlterUserScramCredentialsRequest": frozenset({"salt", "saltedPassword"}),
    "UserScramCredentialRecord": frozenset({"salt", "storedKey", "serverKey"}),
    "EnvelopeRequest": frozenset({"requestData", "requestPrincipal"}),
    "EnvelopeResponse": frozenset({"responseData"}),
}

# Messages that carry configuration entries: objects with `name`, `value` and perhaps `isSensitive`.
CONFIG_MESSAGES = frozenset(
    {
        "AlterConfigsRequest",
        "AlterConfigsResponse",
        "ConfigRecord",
        "CreateTopicsRequest",
        "CreateTopicsResponse",
        "DescribeConfigsResponse",
        "IncrementalAlterConfigsRequest",
        "IncrementalAlterConfigsResponse",
    }
)

# Kafka's sensitive names (those of type PASSWORD), and common ones of connectors and other brokers.
_SENSITIVE = r"(?:password|passphrase|secret|token|jaas|credential|private\.?key|keystore\.key|certificate|api\.?key)"
_SENSITIVE_NAME = re.compile(_SENSITIVE, re.IGNORECASE)
# Kafka's ConfigException quotes the invalid value: "Invalid value VALUE for configuration NAME: reason".
_QUOTED_VALUE = re.compile(rf"(?is)(invalid value ).*( for configuration \S*{_SENSITIVE})")


def is_sensitive_config(name: str) -> bool:
    """Whether a configuration of this name holds a secret."""
    return _SENSITIVE_NAME.search(name) is not None


def redacted_json(
    message: msgspec.Struct,
    version: int,
    *,
    edition: str | None = None,
    show_secrets: bool = False,
    payload: bool = False,
) -> dict[str, object]:
    """The message in Kafka's JSON form, for output: without secrets, with summaries of records, unless requested."""
    tree = codec.to_json(message, version, edition=edition, records=payload)
    if not payload:
        add_summaries(tree, message)
    return tree if show_secrets else redact_json(tree, type(message).__name__)


def redact_json(tree: dict[str, object], name: str) -> dict[str, object]:
    """The JSON form of the message `name` with every secret as `***`. The given tree is not changed."""
    paths = secret_paths(tree, name)
    return cast(dict[str, object], _mask_paths(tree, paths)) if paths else tree


def secret_paths(tree: dict[str, object], name: str) -> set[Path]:
    """The paths of the secrets of a message, as keys and indexes from the root of its JSON form."""
    fields = SECRET_FIELDS.get(name, frozenset())
    if not fields and name not in CONFIG_MESSAGES:
        return set()
    return set(_secret_paths_below(tree, (), fields, is_sensitive=False))


def _secret_paths_below(node: Json, path: Path, fields: frozenset[str], *, is_sensitive: bool) -> Iterator[Path]:
    if isinstance(node, list):
        for index, item in enumerate(node):
            yield from _secret_paths_below(item, (*path, index), fields, is_sensitive=is_sensitive)
    elif isinstance(node, dict):
        # The synonyms in a sensitive entry are sensitive too, whatever their names are.
        name = node.get("name")
        is_sensitive = is_sensitive or node.get("isSensitive") is True
        is_sensitive = is_sensitive or ("value" in node and isinstance(name, str) and is_sensitive_config(name))
        for key, item in node.items():
            is_secret = key in fields or (key == "value" and is_sensitive)
            if (is_secret and item is not None) or (key == "errorMessage" and _is_quoted_secret(item)):
                yield (*path, key)
            else:
                yield from _secret_paths_below(item, (*path, key), fields, is_sensitive=is_sensitive)


def _is_quoted_secret(text: Json) -> bool:
    return isinstance(text, str) and _QUOTED_VALUE.search(text) is not None


def redact_text(text: str) -> str:
    """An error message in which Kafka quotes a sensitive value, without that value."""
    return _QUOTED_VALUE.sub(rf"\g<1>{MASK}\g<2>", text)


def _mask_paths(node: Json, paths: set[Path], path: Path = ()) -> Json:
    if path in paths:
        return redact_text(node) if path[-1] == "errorMessage" and isinstance(node, str) else MASK
    if isinstance(node, dict):
        return {key: _mask_paths(item, paths, (*path, key)) for key, item in node.items()}
    if isinstance(node, list):
        return [_mask_paths(item, paths, (*path, index)) for index, item in enumerate(node)]
    return node
