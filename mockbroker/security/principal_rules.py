"""Mapping of certificate names to principals: `ssl.principal.mapping.rules`. Source: Kafka's SslPrincipalMapper."""

from __future__ import annotations

import re
from typing import NamedTuple

from mockbroker.config.broker_config import BrokerConfig, ConfigError

KEY = "ssl.principal.mapping.rules"
_RULE = re.compile(r"RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)")
_RULES = re.compile(r"\s*(DEFAULT|RULE:(?:\\.|[^\\/])*/(?:\\.|[^\\/])*/[LU]?|)\s*(?:,|$)")
#: Java's syntax of named groups, which differs from Python's.
_GROUP_NAME = re.compile(r"\(\?<(?=[A-Za-z])")
_REFERENCE = re.compile(r"\\(.)|\$(\d+)", re.DOTALL)


class _Rule(NamedTuple):
    """A rule; pattern None: the name without a change."""

    pattern: re.Pattern[str] | None
    replacement: str
    case: str


class PrincipalRules:
    """The rules in their order; the first that matches applies. Raises: ConfigError for an invalid rule."""

    def __init__(self, text: str) -> None:
        self._rules: list[_Rule] = []
        at, text = 0, text.strip()
        while at < len(text):
            match = _RULES.match(text, at)
            if match is None or match.end() == at:
                raise ConfigError(f"{KEY}: invalid rule at {text[at:]!r}")
            if match.group(1):
                self._rules.append(_parse_rule(match.group(1)))
            at = match.end()

    def map_principal(self, name: str) -> str | None:
        """The principal of a distinguished name; None if no rule matches, where Kafka closes the connection."""
        for rule in self._rules:
            if rule.pattern is None:
                return f"User:{name}"
            if rule.pattern.fullmatch(name) is not None:
                return f"User:{_apply_rule(rule.pattern, rule, name)}"
        return None


def _parse_rule(text: str) -> _Rule:
    if text == "DEFAULT":
        return _Rule(None, "", "")
    parts = _RULE.fullmatch(text)
    assert parts is not None
    try:
        pattern = re.compile(_GROUP_NAME.sub("(?P<", parts["pattern"]))
    except re.error as error:
        raise ConfigError(f"{KEY}: {parts['pattern']!r} is not a valid pattern: {error}") from None
    return _Rule(pattern, parts["replacement"], parts["case"])


def _apply_rule(pattern: re.Pattern[str], rule: _Rule, name: str) -> str:
    mapped = pattern.sub(lambda match: _expand_replacement(rule.replacement, match), name)
    return mapped.lower() if rule.case == "L" else mapped.upper() if rule.case == "U" else mapped


def _expand_replacement(replacement: str, match: re.Match[str]) -> str:
    """The replacement with its group references expanded; a reference to a missing group is kept as text."""

    def value(reference: re.Match[str]) -> str:
        if reference[1] is not None:
            return reference[1]
        digits = reference[2]
        while len(digits) > 1 and int(digits) > match.re.groups:
            digits = digits[:-1]
        if int(digits) > match.re.groups:
            return reference[0]
        return (match[int(digits)] or "") + reference[2][len(digits) :]

    return _REFERENCE.sub(value, replacement)


def parse_principal_rules(config: BrokerConfig, listener: str) -> PrincipalRules:
    """Parse the rules of a listener. Raises: ConfigError."""
    return PrincipalRules(config.for_listener(listener).string(KEY) or "DEFAULT")
