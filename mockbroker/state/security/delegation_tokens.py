"""Delegation tokens: creation, renewal, expiry and removal. Source: Kafka's DelegationTokenControlManager.

All times are milliseconds of the cluster's clock.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable, Iterator

import msgspec

from kwire.error_codes import ErrorCode
from kwire.scram import ITERATIONS_MIN, ScramMechanism
from mockbroker.kafka_error import KafkaError
from mockbroker.state.changed_keys import ChangedKeys
from mockbroker.state.security.scram import ScramUser, credential_from_password

_LONG_MAX = (1 << 63) - 1
USER = "User"


class DelegationToken(msgspec.Struct):
    """A token; owner, requester and renewers are principals, "User:alice"."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    latest_ms: int
    expires_ms: int
    hmac: bytes

    def __repr__(self) -> str:
        return f"DelegationToken(owner={self.owner!r}, expires_ms={self.expires_ms}, ***)"

    def may_renew(self, principal: str) -> bool:
        """Return whether a principal owns the token or is one of its renewers."""
        return principal == self.owner or principal in self.renewers

    def is_visible_to(self, principal: str) -> bool:
        """Return whether a principal may renew the token, or has requested it."""
        return principal == self.requester or self.may_renew(principal)

    def is_expired(self, now_ms: int) -> bool:
        """Return whether the token has expired; it stays until it is removed."""
        return self.latest_ms < now_ms or self.expires_ms < now_ms


class DelegationTokens:
    """The tokens of a cluster.

    secret: `delegation.token.secret.key`; without one all operations fail. lifetime_max_ms, renewal_ms, sweep_ms:
    the longest life, the time until a renewal is due, and the interval between removals of expired tokens.
    changed: the ids of tokens.
    """

    def __init__(self, secret: str, *, lifetime_max_ms: int, renewal_ms: int, sweep_ms: int) -> None:
        self._secret = secret.encode()
        self._lifetime_max_ms = lifetime_max_ms
        self._renewal_ms = renewal_ms
        self._sweep_ms = sweep_ms
        self._last_sweep_ms: int | None = None
        self._by_id: dict[str, DelegationToken] = {}
        self._by_hmac: dict[bytes, DelegationToken] = {}
        self.changed: ChangedKeys[str] = ChangedKeys()

    def __repr__(self) -> str:
        return f"DelegationTokens({len(self._by_id)} tokens, ***)"

    def check_enabled(self) -> None:
        """Raises: DELEGATION_TOKEN_AUTH_DISABLED without a secret key."""
        if not self._secret:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)

    def create_token(
        self, token_id: str, *, owner: str, requester: str, renewers: tuple[str, ...], lifetime_ms: int, now_ms: int
    ) -> DelegationToken:
        """Create a token; lifetime_ms: 0 and less for the longest. Raises: as `check_enabled`."""
        self.check_enabled()
        self._remove_expired(now_ms)
        lifetime_ms = min(self._lifetime_max_ms, lifetime_ms) if lifetime_ms > 0 else self._lifetime_max_ms
        latest_ms = min(now_ms + lifetime_ms, _LONG_MAX)
        expires_ms = min(latest_ms, now_ms + self._renewal_ms)
        return self.restore_token(
            token_id,
            owner=owner,
            requester=requester,
            renewers=renewers,
            issued_ms=now_ms,
            latest_ms=latest_ms,
            expires_ms=expires_ms,
        )

    def stored_tokens(self) -> list[DelegationToken]:
        """All tokens that have not been removed, expired ones included."""
        return list(self._by_id.values())

    def restore_token(
        self,
        token_id: str,
        *,
        owner: str,
        requester: str,
        renewers: tuple[str, ...],
        issued_ms: int,
        latest_ms: int,
        expires_ms: int,
    ) -> DelegationToken:
        """Add a token with these times; its HMAC follows from the id and the secret key."""
        secret = hmac.digest(self._secret, token_id.encode(), "sha512")
        token = DelegationToken(token_id, owner, requester, renewers, issued_ms, latest_ms, expires_ms, secret)
        self._by_id[token_id] = self._by_hmac[secret] = token
        self.changed.add(token_id)
        return token

    def find_token(self, token_id: str) -> DelegationToken | None:
        """The token of an id that has not been removed, or None."""
        return self._by_id.get(token_id)

    def remove_token(self, token_id: str) -> None:
        """Remove a token."""
        del self._by_hmac[self._by_id.pop(token_id).hmac]
        self.changed.add(token_id)

    def renew_token(self, secret: bytes, principal: str, *, period_ms: int, now_ms: int) -> int:
        """Extend the expiry of a token and return it; period_ms: 0 and less for the configured time.

        Raises: as `check_enabled`; DELEGATION_TOKEN_NOT_FOUND, _EXPIRED, _OWNER_MISMATCH.
        """
        token = self._find_token(secret, now_ms)
        if token.is_expired(now_ms):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        _check_renewer(token, principal)
        period_ms = min(self._renewal_ms, period_ms) if period_ms > 0 else self._renewal_ms
        token.expires_ms = min(token.latest_ms, now_ms + period_ms)
        self.changed.add(token.token_id)
        return token.expires_ms

    def expire_token(self, secret: bytes, principal: str, *, period_ms: int, now_ms: int) -> int:
        """Set and return the expiry of a token, or delete it when the period is negative. Raises: as `renew_token`."""
        token = self._find_token(secret, now_ms)
        _check_renewer(token, principal)
        if period_ms < 0:
            self.remove_token(token.token_id)
            return now_ms
        if token.is_expired(now_ms):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        token.expires_ms = min(token.latest_ms, now_ms + period_ms)
        self.changed.add(token.token_id)
        return token.expires_ms

    def describe_tokens(self, selects: Callable[[DelegationToken], bool], *, now_ms: int) -> Iterator[DelegationToken]:
        """The tokens that a predicate selects. Raises: as `check_enabled`."""
        self.check_enabled()
        self._remove_expired(now_ms)
        return (token for token in self._by_id.values() if selects(token))

    def find_scram_user(self, token_id: str, mechanism: ScramMechanism, *, now_ms: int) -> ScramUser | None:
        """The SCRAM user of a token: its id is the name, its HMAC in base64 the password. Expired tokens still work."""
        self._remove_expired(now_ms)
        token = self._by_id.get(token_id)
        if token is None:
            return None
        password = base64.b64encode(token.hmac).decode()
        # Only the client sees the salt; for a token it need not differ each time.
        credential = credential_from_password(mechanism, password, token_id.encode(), ITERATIONS_MIN)
        return ScramUser(credential, token.owner.partition(":")[2], token.expires_ms)

    def _find_token(self, secret: bytes, now_ms: int) -> DelegationToken:
        self.check_enabled()
        self._remove_expired(now_ms)
        token = self._by_hmac.get(secret)
        if token is None:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return token

    def _remove_expired(self, now_ms: int) -> None:
        """Remove the tokens that had expired at the controller's last periodic check.

        A removal is only visible to requests, so it is done with the next request. The first check is a whole period
        after the first use.
        """
        if self._last_sweep_ms is None:
            self._last_sweep_ms = now_ms
        if now_ms - self._last_sweep_ms >= self._sweep_ms:
            self._last_sweep_ms += (now_ms - self._last_sweep_ms) // self._sweep_ms * self._sweep_ms
            at_ms = self._last_sweep_ms
            for token_id in [key for key, token in self._by_id.items() if token.is_expired(at_ms)]:
                self.remove_token(token_id)


def _check_renewer(token: DelegationToken, principal: str) -> None:
    if not token.may_renew(principal):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
