"""SCRAM credentials of users, and their changes. Source: Kafka's ScramControlManager and ScramImage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kwire.error_codes import ErrorCode
from kwire.scram import ITERATIONS_MIN, ScramMechanism
from mockbroker.kafka_error import KafkaError
from mockbroker.state.changed_keys import ChangedKeys
from mockbroker.state.security.scram import ITERATIONS_MAX, ScramCredential, credential_from_salted

_DUPLICATE_CHANGE = "A user's credentials cannot be changed twice in one request"


class CredentialDeletion(NamedTuple):
    """A credential to delete; mechanism: the number in the request."""

    user: str
    mechanism: int


class CredentialUpsertion(NamedTuple):
    """A credential to create or replace."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        return f"CredentialUpsertion({self.user!r}, mechanism={self.mechanism}, ***)"


class ScramCredentials:
    """The credentials of a cluster, by mechanism and user. changed: those that have changed."""

    def __init__(self) -> None:
        self._credentials: dict[ScramMechanism, dict[str, ScramCredential]] = {one: {} for one in ScramMechanism}
        self.changed: ChangedKeys[tuple[str, ScramMechanism]] = ChangedKeys()

    def set_credential(self, user: str, mechanism: ScramMechanism, credential: ScramCredential) -> None:
        """Create or replace a credential."""
        self.changed.add((user, mechanism))
        self._credentials[mechanism][user] = credential

    def remove_credential(self, user: str, mechanism: ScramMechanism) -> None:
        """Remove a credential, if it exists."""
        if self._credentials[mechanism].pop(user, None) is not None:
            self.changed.add((user, mechanism))

    def find_credential(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None:
        """A user's credential."""
        return self._credentials[mechanism].get(user)

    def users(self) -> list[str]:
        """All users with a credential."""
        return list(dict.fromkeys(user for by_user in self._credentials.values() for user in by_user))

    def describe_user(self, user: str) -> list[tuple[ScramMechanism, int]]:
        """The mechanisms of a user with their iterations. Raises: RESOURCE_NOT_FOUND when there are none."""
        by_mechanism = self._credentials.items()
        mechanisms = [(mechanism, by_user[user].iterations) for mechanism, by_user in by_mechanism if user in by_user]
        if not mechanisms:
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"no credentials exist for user {user}")
        return mechanisms

    def alter_credentials(
        self, deletions: Iterable[CredentialDeletion], upsertions: Iterable[CredentialUpsertion]
    ) -> Iterator[tuple[str, KafkaError | None]]:
        """Change credentials; one result for each user, successes first.

        Users fail one by one: UNACCEPTABLE_CREDENTIAL, UNSUPPORTED_SASL_MECHANISM, RESOURCE_NOT_FOUND, and
        DUPLICATE_RESOURCE for a user that occurs twice; the first error of a user is returned.
        """
        accepted: dict[str, CredentialDeletion | CredentialUpsertion] = {}
        errors: dict[str, KafkaError] = {}
        changes: list[CredentialDeletion | CredentialUpsertion] = [*deletions, *upsertions]
        for change in changes:
            if change.user in errors:
                continue
            error = self._check_change(change)
            if accepted.pop(change.user, None) is not None:
                error = KafkaError(ErrorCode.DUPLICATE_RESOURCE, _DUPLICATE_CHANGE)
            if error is None:
                accepted[change.user] = change
            else:
                errors[change.user] = error
        for user, change in accepted.items():
            if isinstance(change, CredentialDeletion):
                self.remove_credential(user, _BY_NUMBER[change.mechanism])
            elif not change.salted_password:
                # Java's HMAC rejects an empty key, at this point in Kafka.
                errors[user] = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
                continue
            else:
                mechanism = _BY_NUMBER[change.mechanism]
                credential = credential_from_salted(mechanism, change.salted_password, change.salt, change.iterations)
                self.set_credential(user, mechanism, credential)
            yield user, None
        yield from errors.items()

    def _check_change(self, change: CredentialDeletion | CredentialUpsertion) -> KafkaError | None:
        if not change.user:
            return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The user name is empty")
        if change.mechanism not in _BY_NUMBER:
            return KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"{change.mechanism} is not a SCRAM mechanism")
        if isinstance(change, CredentialDeletion):
            if change.user not in self._credentials[_BY_NUMBER[change.mechanism]]:
                return KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"user {change.user} has no such credential")
        elif not ITERATIONS_MIN <= change.iterations <= ITERATIONS_MAX:
            message = f"{change.iterations} iterations; {ITERATIONS_MIN} to {ITERATIONS_MAX} are allowed"
            return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, message)
        return None


_BY_NUMBER = {one.number: one for one in ScramMechanism}
