"""SCRAM credentials of users, and the rules for changing them. Source: Kafka's ScramControlManager and ScramImage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kwire.error_codes import ErrorCode
from kwire.scram import ITERATIONS_MIN, ScramMechanism
from mockbroker.kafka_error import KafkaError
from mockbroker.state.scram import ITERATIONS_MAX, ScramCredential, credential_of

_TWICE = "A user's credentials cannot be changed twice in one request"


class Deletion(NamedTuple):
    """A credential to forget; mechanism: the number that was sent."""

    user: str
    mechanism: int


class Upsertion(NamedTuple):
    """A credential to make or replace."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        return f"Upsertion({self.user!r}, mechanism={self.mechanism}, ***)"


class Credentials:
    """The credentials of a cluster, by mechanism and user."""

    def __init__(self) -> None:
        self._kept: dict[ScramMechanism, dict[str, ScramCredential]] = {one: {} for one in ScramMechanism}

    def put(self, user: str, mechanism: ScramMechanism, credential: ScramCredential) -> None:
        """Make or replace a credential."""
        self._kept[mechanism][user] = credential

    def find(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None:
        """A user's credential."""
        return self._kept[mechanism].get(user)

    def users(self) -> list[str]:
        """Everybody who has a credential."""
        return list(dict.fromkeys(user for kept in self._kept.values() for user in kept))

    def of(self, user: str) -> list[tuple[ScramMechanism, int]]:
        """A user's mechanisms and their iterations.

        Raises: RESOURCE_NOT_FOUND when there are none.
        """
        found = [(one, kept[user].iterations) for one, kept in self._kept.items() if user in kept]
        if not found:
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"there are no credentials of user {user}")
        return found

    def alter(
        self, deletions: Iterable[Deletion], upsertions: Iterable[Upsertion]
    ) -> Iterator[tuple[str, KafkaError | None]]:
        """Change credentials; one result a user, those that went well first.

        Users fail one by one: UNACCEPTABLE_CREDENTIAL, UNSUPPORTED_SASL_MECHANISM, RESOURCE_NOT_FOUND, and
        DUPLICATE_RESOURCE for one who comes twice, but for a user's first failure, which stays.
        """
        wanted: dict[str, Deletion | Upsertion] = {}
        errors: dict[str, KafkaError] = {}
        changes: list[Deletion | Upsertion] = [*deletions, *upsertions]
        for change in changes:
            if change.user in errors:
                continue
            if wanted.pop(change.user, None) is not None:
                errors[change.user] = KafkaError(ErrorCode.DUPLICATE_RESOURCE, _TWICE)
                continue
            error = self._refusal(change)
            if error is None:
                wanted[change.user] = change
            else:
                errors[change.user] = error
        for user, change in wanted.items():
            if isinstance(change, Deletion):
                del self._kept[_mechanism(change.mechanism)][user]
            elif not change.salted_password:
                # Java's HMAC takes no empty key, and Kafka finds out here.
                errors[user] = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
                continue
            else:
                mechanism = _mechanism(change.mechanism)
                self.put(user, mechanism, credential_of(mechanism, *_parts(change)))
            yield user, None
        yield from errors.items()

    def _refusal(self, change: Deletion | Upsertion) -> KafkaError | None:
        if not change.user:
            return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "A user has a name")
        if change.mechanism not in _BY_NUMBER:
            return KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"{change.mechanism} is no mechanism of SCRAM")
        if isinstance(change, Deletion):
            if change.user not in self._kept[_mechanism(change.mechanism)]:
                return KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"user {change.user} has no such credential")
        elif not ITERATIONS_MIN <= change.iterations <= ITERATIONS_MAX:
            return KafkaError(
                ErrorCode.UNACCEPTABLE_CREDENTIAL,
                f"{change.iterations} iterations; {ITERATIONS_MIN} to {ITERATIONS_MAX} are allowed",
            )
        return None


_BY_NUMBER = {one.number: one for one in ScramMechanism}


def _mechanism(number: int) -> ScramMechanism:
    return _BY_NUMBER[number]


def _parts(change: Upsertion) -> tuple[bytes, bytes, int]:
    return change.salted_password, change.salt, change.iterations
