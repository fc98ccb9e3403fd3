"""`ClusterOAuth`: tokens for clients of a running cluster with `sasl="OAUTHBEARER"`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mockbroker.cluster_methods.cluster_thread import ClusterThread

if TYPE_CHECKING:
    from mockbroker.security.token_issuer import TokenIssuer
    from mockbroker.server import Server


class ClusterOAuth:
    """The issuer of the tokens that a cluster accepts. Times are on the cluster's clock."""

    def __init__(self, cluster: ClusterThread) -> None:
        self._cluster = cluster
        self._cluster._read(_issuer)  # Refuses another cluster at once.

    @property
    def token_endpoint_url(self) -> str:
        """Where clients get tokens by the client credentials grant; any id is accepted, and is the user, unless `sasl`
        names one.
        """
        return self._cluster._read(lambda server: server.require_token_endpoint().base_url) + "/token"

    @property
    def jwks_url(self) -> str:
        """The public keys that verify the tokens, for other services of a test."""
        return self._cluster._read(lambda server: server.require_token_endpoint().base_url) + "/jwks"

    @property
    def token_lifetime_s(self) -> int:
        """How long tokens are valid, seconds, unless `token` is given another time. It can be set."""
        return self._cluster._read(lambda server: _issuer(server).lifetime_s)

    @token_lifetime_s.setter
    def token_lifetime_s(self, lifetime_s: int) -> None:
        def change(server: Server) -> None:
            _issuer(server).lifetime_s = lifetime_s

        self._cluster._read(change)

    def token(
        self,
        subject: str,
        *,
        scope: str | None = None,
        expires_in_s: int | None = None,
        claims: Mapping[str, object] | None = None,
    ) -> str:
        """A signed token. The brokers make of its subject the principal `User:SUBJECT`.

        expires_in_s: seconds from now on; None for `token_lifetime_s`, a negative one for a token that has expired.
        claims: more of them, or others than the cluster expects; None leaves one out.
        """

        def create(server: Server) -> str:
            now_ms, issuer = server.clock.now_ms(), _issuer(server)
            return issuer.create_token(subject, now_ms=now_ms, scope=scope, expires_in_s=expires_in_s, claims=claims)

        return self._cluster._read(create)

    def rotate_keys(self, *, keep_previous: bool = False) -> None:
        """Sign with a new key. keep_previous: whether the brokers still accept tokens of the previous keys."""
        self._cluster._read(lambda server: _issuer(server).rotate_keys(keep_previous=keep_previous))


def _issuer(server: Server) -> TokenIssuer:
    security = server.options.security
    if security is None or security.issuer is None:
        raise RuntimeError('the cluster issues no tokens: start it with sasl="OAUTHBEARER"')
    return security.issuer
