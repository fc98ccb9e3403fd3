"""Configuration of client metrics subscriptions (KIP-714) and its validation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from kwire.error_codes import ErrorCode
from mockbroker.config.keys import ConfigError, Scope, config_keys
from mockbroker.kafka_error import KafkaError

METRICS, INTERVAL, MATCH = "metrics", "interval.ms", "match"

#: The client attributes that a subscription can match.
CLIENT_PARAMETERS = frozenset(
    {
        "client_id",
        "client_instance_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
_INTERVAL_MS = (100, 3_600_000)
#: Java's regular expression syntax that differs in Python, or does not exist there.
_GROUP_NAME = re.compile(r"\(\?<(?=[A-Za-z])")
_PROPERTY = re.compile(r"\\[pP](\{\w+\}|\w)")


def check_subscription(name: str, given: Mapping[str, str]) -> None:
    """Reject an invalid subscription. Source: Kafka's ClientMetricsConfigs.validate.

    Raises: INVALID_REQUEST for names and for the interval, ConfigError for the other values.
    """
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    known_keys = config_keys(Scope.CLIENT_METRICS)
    for key in given:
        if key not in known_keys:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {key}")
    values = {key: known_keys[key].parse(text) for key, text in given.items()}
    for key in (METRICS, MATCH):
        value = values.get(key)
        if isinstance(value, list) and "" in value:
            raise ConfigError(f"{key}: {given[key]!r} has an empty part")
    interval = values.get(INTERVAL)
    low, high = _INTERVAL_MS
    if isinstance(interval, int) and not low <= interval <= high:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{INTERVAL}: {interval} is not from {low} to {high}")
    match = values.get(MATCH)
    if isinstance(match, list):
        parse_match(match)


def parse_match(patterns: Sequence[str]) -> dict[str, re.Pattern[str]]:
    """Parameter -> pattern that its value has to match as a whole; the last of several for one parameter is used.

    Raises: ConfigError. A pattern is compiled as a Python pattern, which supports what patterns for clients need.
    """
    parsed = {}
    for pattern in patterns:
        # As Java's split: empty parts at the end are dropped.
        parts = pattern.rstrip("=").split("=")
        if len(parts) != 2 or parts[0].strip() not in CLIENT_PARAMETERS:
            raise ConfigError(f"Illegal client matching pattern: {pattern}")
        spelled = _PROPERTY.sub(r"\\w", _GROUP_NAME.sub("(?P<", parts[1].strip()))
        try:
            parsed[parts[0].strip()] = re.compile(spelled)
        except re.error as error:
            raise ConfigError(f"Illegal client matching pattern: {pattern}: {error}") from None
    return parsed
