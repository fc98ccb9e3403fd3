"""Delegation tokens: made, renewed, ended, and swept away. Source: Kafka's DelegationTokenControlManager.

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
from mockbroker.state.scram import Known, credential_for

_LONG_MAX = (1 << 63) - 1
USER = "User"


class Token(msgspec.Struct):
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
        return f"Token(owner={self.owner!r}, expires_ms={self.expires_ms}, ***)"

    def may_renew(self, principal: str) -> bool:
        """Whether somebody owns the token or is one of its renewers."""
        return principal == self.owner or principal in self.renewers

    def concerns(self, principal: str) -> bool:
        """Whether somebody may renew the token, or has asked for it."""
        return principal == self.requester or self.may_renew(principal)

    def is_over(self, now_ms: int) -> bool:
        """Whether its time is past; it is there until it is swept away."""
        return self.latest_ms < now_ms or self.expires_ms < now_ms


class Tokens:
    """The tokens of a cluster.

    secret: `delegation.token.secret.key`; without one nothing can be done. lifetime_max_ms, renewal_ms, sweep_ms:
    the longest life, the time until a renewal is due, and the time between sweeps.
    """

    def __init__(self, secret: str, *, lifetime_max_ms: int, renewal_ms: int, sweep_ms: int) -> None:
        self._secret = secret.encode()
        self._lifetime_max_ms = lifetime_max_ms
        self._renewal_ms = renewal_ms
        self._sweep_ms = sweep_ms
        self._swept_ms: int | None = None
        self._by_id: dict[str, Token] = {}

    def __repr__(self) -> str:
        return f"Tokens({len(self._by_id)} tokens, ***)"

    def check_enabled(self) -> None:
        """Raises: DELEGATION_TOKEN_AUTH_DISABLED without a secret key."""
        if not self._secret:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)

    def create(
        self, token_id: str, *, owner: str, requester: str, renewers: tuple[str, ...], lifetime_ms: int, now_ms: int
    ) -> Token:
        """Make a token; lifetime_ms: what was asked for, 0 and less for the longest. Raises: as `check_enabled`."""
        self.check_enabled()
        self._sweep(now_ms)
        lifetime_ms = min(self._lifetime_max_ms, lifetime_ms) if lifetime_ms > 0 else self._lifetime_max_ms
        latest_ms = min(now_ms + lifetime_ms, _LONG_MAX)
        expires_ms = min(latest_ms, now_ms + self._renewal_ms)
        secret = hmac.digest(self._secret, token_id.encode(), "sha512")
        token = Token(token_id, owner, requester, renewers, now_ms, latest_ms, expires_ms, secret)
        self._by_id[token_id] = token
        return token

    def renew(self, secret: bytes, principal: str, *, period_ms: int, now_ms: int) -> int:
        """Put off the end of a token, and answer the new one; period_ms: 0 and less for the configured time.

        Raises: as `check_enabled`; DELEGATION_TOKEN_NOT_FOUND, _EXPIRED, _OWNER_MISMATCH.
        """
        token = self._find(secret, now_ms)
        if token.is_over(now_ms):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        _check_renewer(token, principal)
        period_ms = min(self._renewal_ms, period_ms) if period_ms > 0 else self._renewal_ms
        token.expires_ms = min(token.latest_ms, now_ms + period_ms)
        return token.expires_ms

    def expire(self, secret: bytes, principal: str, *, period_ms: int, now_ms: int) -> int:
        """Set the end of a token, or forget it when the period is negative; answers the end. Raises: as `renew`."""
        token = self._find(secret, now_ms)
        _check_renewer(token, principal)
        if period_ms < 0:
            del self._by_id[token.token_id]
            return now_ms
        if token.is_over(now_ms):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        token.expires_ms = min(token.latest_ms, now_ms + period_ms)
        return token.expires_ms

    def described(self, wanted: Callable[[Token], bool], *, now_ms: int) -> Iterator[Token]:
        """The tokens that somebody wants to see. Raises: as `check_enabled`."""
        self.check_enabled()
        self._sweep(now_ms)
        return (token for token in self._by_id.values() if wanted(token))

    def known(self, token_id: str, mechanism: ScramMechanism, *, now_ms: int) -> Known | None:
        """Who logs in by a token: its id is the name, its HMAC in base64 the password. One that is over still works."""
        self._sweep(now_ms)
        token = self._by_id.get(token_id)
        if token is None:
            return None
        password = base64.b64encode(token.hmac).decode()
        # Nobody but the client sees the salt; of a token it need not be another each time.
        credential = credential_for(mechanism, password, token_id.encode(), ITERATIONS_MIN)
        return Known(credential, token.owner.partition(":")[2], token.expires_ms)

    def _find(self, secret: bytes, now_ms: int) -> Token:
        self.check_enabled()
        self._sweep(now_ms)
        for token in self._by_id.values():
            if hmac.compare_digest(token.hmac, secret):
                return token
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)

    def _sweep(self, now_ms: int) -> None:
        """Forget what was over when the controller last looked, as it does every so often.

        Nobody sees when a token goes but by asking, so it is done when somebody asks. The first of all sweeps is a
        whole period after the first use.
        """
        if self._swept_ms is None:
            self._swept_ms = now_ms
        if now_ms - self._swept_ms >= self._sweep_ms:
            self._swept_ms += (now_ms - self._swept_ms) // self._sweep_ms * self._sweep_ms
            at_ms = self._swept_ms
            self._by_id = {key: token for key, token in self._by_id.items() if not token.is_over(at_ms)}


def _check_renewer(token: Token, principal: str) -> None:
    if not token.may_renew(principal):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
