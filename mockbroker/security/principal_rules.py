"""From a certificate's name to a principal: `ssl.principal.mapping.rules`. Source: Kafka's SslPrincipalMapper."""

from __future__ import annotations

import re
from typing import NamedTuple

from mockbroker.config import BrokerConfig, ConfigError

KEY = "ssl.principal.mapping.rules"
_RULE = re.compile(r"RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)")
_RULES = re.compile(r"\s*(DEFAULT|RULE:(?:\\.|[^\\/])*/(?:\\.|[^\\/])*/[LU]?|)\s*(?:,|$)")
#: Java's spelling of named groups, which Python has another for.
_GROUP_NAME = re.compile(r"\(\?<(?=[A-Za-z])")
_REFERENCE = re.compile(r"\\(.)|\$(\d+)", re.DOTALL)


class _Rule(NamedTuple):
    """pattern None: the name as it is."""

    pattern: re.Pattern[str] | None
    replacement: str
    case: str


class PrincipalRules:
    """The rules in their order; the first that matches says the name. Raises: ConfigError for what is no rule."""

    def __init__(self, text: str) -> None:
        self._rules: list[_Rule] = []
        at, text = 0, text.strip()
        while at < len(text):
            found = _RULES.match(text, at)
            if found is None or found.end() == at:
                raise ConfigError(f"{KEY}: no rule begins at {text[at:]!r}")
            if found.group(1):
                self._rules.append(_rule(found.group(1)))
            at = found.end()

    def principal(self, name: str) -> str | None:
        """The principal of a distinguished name, None when no rule is for it, and Kafka lets nobody in."""
        for rule in self._rules:
            if rule.pattern is None:
                return f"User:{name}"
            if rule.pattern.fullmatch(name) is not None:
                return f"User:{_applied(rule.pattern, rule, name)}"
        return None


def _rule(text: str) -> _Rule:
    if text == "DEFAULT":
        return _Rule(None, "", "")
    parts = _RULE.fullmatch(text)
    assert parts is not None
    try:
        pattern = re.compile(_GROUP_NAME.sub("(?P<", parts["pattern"]))
    except re.error as error:
        raise ConfigError(f"{KEY}: {parts['pattern']!r} is no pattern: {error}") from None
    return _Rule(pattern, parts["replacement"], parts["case"])


def _applied(pattern: re.Pattern[str], rule: _Rule, name: str) -> str:
    made = pattern.sub(lambda found: _filled(rule.replacement, found), name)
    return made.lower() if rule.case == "L" else made.upper() if rule.case == "U" else made


def _filled(replacement: str, match: re.Match[str]) -> str:
    """The replacement with its references; one to a group that there is not stands for itself."""

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


def rules_of(config: BrokerConfig, listener: str) -> PrincipalRules:
    """The rules of a listener. Raises: ConfigError."""
    return PrincipalRules(config.of_listener(listener).string(KEY) or "DEFAULT")
