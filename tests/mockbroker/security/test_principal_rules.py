"""The mapping rules from names of certificates to principals."""

from __future__ import annotations

import pytest

from mockbroker.config.broker_config import ConfigError
from mockbroker.security.principal_rules import PrincipalRules

NAME = "CN=alice.smith,OU=A,O=Orders"


@pytest.mark.parametrize(
    ("rules", "principal"),
    [
        ("DEFAULT", f"User:{NAME}"),
        ("", None),
        ("RULE:^CN=(.*?),.*$/$1/", "User:alice.smith"),
        ("RULE:^CN=(.*?),.*$/$1/U", "User:ALICE.SMITH"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$2-$1/L, DEFAULT", "User:a-alice.smith"),
        ("RULE:^CN=nobody$/x/, DEFAULT", f"User:{NAME}"),
        ("RULE:^CN=nobody$/x/", None),
        (r"RULE:^CN=([^.]+)\.(.*?),.*$/$2\/$1$3/", "User:smith/alice$3"),
        ("RULE:^CN=(.*?),.*$/$12/", "User:alice.smith2"),
    ],
)
def test_the_first_rule_that_matches_names_the_principal(rules: str, principal: str | None) -> None:
    assert PrincipalRules(rules).map_principal(NAME) == principal


@pytest.mark.parametrize("rules", ["RULE:a", "RULE:a/b", "DEFAULTS", "RULE:(/x/", "DEFAULT RULE:a/b/"])
def test_an_invalid_rule_is_refused(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalRules(rules)
