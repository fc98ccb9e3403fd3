"""Access control entries, SCRAM credentials and delegation tokens as records, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kwire.records.metadata.access_control_entry_record import AccessControlEntryRecord
from kwire.records.metadata.delegation_token_record import DelegationTokenRecord
from kwire.records.metadata.user_scram_credential_record import UserScramCredentialRecord
from kwire.scram import ScramMechanism
from mockbroker.metadata_log.tables import MetadataLogError
from mockbroker.state.security.acls import Acl, AclFilter, PatternType, Permission
from mockbroker.state.security.operations import AclOperation, ResourceType
from mockbroker.state.security.scram import ScramCredential

if TYPE_CHECKING:
    from mockbroker.metadata_log.image import MetadataImage
    from mockbroker.state.security.authorizer import Authorizer
    from mockbroker.state.security.delegation_tokens import DelegationTokens
    from mockbroker.state.security.scram_credentials import ScramCredentials

_ALL = AclFilter(ResourceType.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, Permission.ANY)
_MECHANISMS = {mechanism.number: mechanism for mechanism in ScramMechanism}


def describe_acls(
    authorizer: Authorizer, previous: MetadataImage, new_id: Callable[[], bytes]
) -> Iterator[AccessControlEntryRecord]:
    """All entries. The authorizer has no ids: an entry keeps that of the previous image, a new one gets a new id."""
    ids = {_make_acl(record): record.id for record in previous.tables[AccessControlEntryRecord].values()}
    for acl in authorizer.find_acls(_ALL):
        known = ids.get(acl)
        yield AccessControlEntryRecord(
            known if known is not None else new_id(),
            int(acl.resource_type),
            acl.resource_name,
            int(acl.pattern_type),
            acl.principal,
            acl.host,
            int(acl.operation),
            int(acl.permission),
        )


def restore_acls(image: MetadataImage, authorizer: Authorizer) -> None:
    """Add the entries of an image."""
    for record in image.tables[AccessControlEntryRecord].values():
        authorizer.add_acl(_make_acl(record))


def _make_acl(record: AccessControlEntryRecord) -> Acl:
    return Acl(
        record.resource_type,
        record.resource_name,
        record.pattern_type,
        record.principal,
        record.host,
        record.operation,
        record.permission_type,
    )


def describe_credentials(credentials: ScramCredentials) -> Iterator[UserScramCredentialRecord]:
    """The SCRAM credentials of all users."""
    for mechanism in ScramMechanism:
        for user in credentials.users():
            found = credentials.find_credential(user, mechanism)
            if found is not None:
                yield UserScramCredentialRecord(
                    user, mechanism.number, found.salt, found.stored_key, found.server_key, found.iterations
                )


def restore_credentials(image: MetadataImage, credentials: ScramCredentials) -> None:
    """Set the credentials of an image. Raises: MetadataLogError for an unknown mechanism."""
    for record in image.tables[UserScramCredentialRecord].values():
        mechanism = _MECHANISMS.get(record.mechanism)
        if mechanism is None:
            raise MetadataLogError(f"UserScramCredentialRecord {record.name}: {record.mechanism} is not a mechanism")
        keys = (bytes(record.salt), bytes(record.stored_key), bytes(record.server_key))
        credentials.set_credential(record.name, mechanism, ScramCredential(*keys, record.iterations))


def describe_tokens(tokens: DelegationTokens) -> Iterator[DelegationTokenRecord]:
    """The delegation tokens, without their HMACs, which follow from the secret key."""
    for token in tokens.stored_tokens():
        yield DelegationTokenRecord(
            token.owner,
            token.requester,
            token.renewers,
            token.issued_ms,
            token.latest_ms,
            token.expires_ms,
            token.token_id,
        )


def restore_tokens(image: MetadataImage, tokens: DelegationTokens) -> None:
    """Add the tokens of an image; they are valid only with the secret key with which they were created."""
    for record in image.tables[DelegationTokenRecord].values():
        tokens.restore_token(
            record.token_id,
            owner=record.owner,
            requester=record.requester,
            renewers=tuple(record.renewers),
            issued_ms=record.issue_timestamp,
            latest_ms=record.max_timestamp,
            expires_ms=record.expiration_timestamp,
        )
