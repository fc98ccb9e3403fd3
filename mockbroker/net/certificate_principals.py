"""`CertificatePrincipals`: the principals of client certificates, by the mapping rules of their listeners."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mockbroker.config.broker_config import BrokerConfig
    from mockbroker.security.principal_rules import PrincipalRules


class CertificatePrincipals:
    """Maps the names in certificates by `ssl.principal.mapping.rules`, whose rules are parsed on first use."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._rules: dict[str, PrincipalRules] = {}

    def map_certificate(self, certificate: bytes, listener: str) -> str | None:
        """The principal of a client certificate (DER) at a listener; None if no mapping rule matches."""
        rules = self._rules.get(listener)
        if rules is None:
            from mockbroker.security.principal_rules import parse_principal_rules

            rules = self._rules[listener] = parse_principal_rules(self._config, listener)
        from mockbroker.security.distinguished_name import read_subject

        return rules.map_principal(read_subject(certificate))
