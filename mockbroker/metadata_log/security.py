"""Access control entries, SCRAM credentials and delegation tokens as records, and back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from kwire.records.metadata.access_control_entry_record import AccessControlEntryRecord
from kwire.records.metadata.delegation_token_record import DelegationTokenRecord
from kwire.records.metadata.user_scram_credential_record import UserScramCredentialRecord
from kwire.scram import ScramMechanism
from mockbroker.metadata_log.tables import MetadataLogError, acl_fields
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
    authorizer: Authorizer, previous: MetadataImage, new_id: Callable[[], bytes], acls: Collection[Acl] | None = None
) -> Iterator[AccessControlEntryRecord]:
    """All entries. The authorizer has no ids: an entry keeps that of the previous image, a new one gets a new id.

    acls: only those of these that exist, None for all.
    """
    for acl in authorizer.find_acls(_ALL) if acls is None else filter(authorizer.has_acl, acls):
        known = previous.acls.keys_of(acl)
        yield AccessControlEntryRecord(
            known[-1] if known else new_id(),
            int(acl.resource_type),
            acl.resource_name,
            int(acl.pattern_type),
            acl.principal,
            acl.host,
            int(acl.operation),
            int(acl.permission),
        )


def restore_acls(image: MetadataImage, authorizer: Authorizer) -> None:
    """Set exactly the entries of an image."""
    stored = {_make_acl(record): None for record in image.tables[AccessControlEntryRecord].values()}
    present = dict.fromkeys(authorizer.find_acls(_ALL))
    if present.keys() - stored.keys():
        authorizer.remove_acls([acl for acl in present if acl not in stored])
    for acl in stored:
        if acl not in present:
            authorizer.add_acl(acl)


def _make_acl(record: AccessControlEntryRecord) -> Acl:
    return Acl(*acl_fields(record))


def describe_credentials(
    credentials: ScramCredentials, keys: Collection[tuple[str, ScramMechanism]] | None = None
) -> Iterator[UserScramCredentialRecord]:
    """The SCRAM credentials of all users. keys: only those of these that exist, None for all."""
    if keys is None:
        users = credentials.users()
        keys = [(user, mechanism) for mechanism in ScramMechanism for user in users]
    for user, mechanism in keys:
        found = credentials.find_credential(user, mechanism)
        if found is not None:
            yield UserScramCredentialRecord(
                user, mechanism.number, found.salt, found.stored_key, found.server_key, found.iterations
            )


def restore_credentials(image: MetadataImage, credentials: ScramCredentials) -> None:
    """Set exactly the credentials of an image. Raises: MetadataLogError for an unknown mechanism."""
    stored = image.tables[UserScramCredentialRecord]
    for user in credentials.users():
        for known in ScramMechanism:
            if (user, known.number) not in stored:
                credentials.remove_credential(user, known)
    for record in image.tables[UserScramCredentialRecord].values():
        mechanism = _MECHANISMS.get(record.mechanism)
        if mechanism is None:
            raise MetadataLogError(f"UserScramCredentialRecord {record.name}: {record.mechanism} is not a mechanism")
        keys = (bytes(record.salt), bytes(record.stored_key), bytes(record.server_key))
        credential = ScramCredential(*keys, record.iterations)
        if credentials.find_credential(record.name, mechanism) != credential:
            credentials.set_credential(record.name, mechanism, credential)


def describe_tokens(
    tokens: DelegationTokens, token_ids: Collection[str] | None = None
) -> Iterator[DelegationTokenRecord]:
    """The delegation tokens, without their HMACs, which follow from the secret key.

    token_ids: only those of these that exist, None for all.
    """
    found = tokens.stored_tokens() if token_ids is None else filter(None, map(tokens.find_token, token_ids))
    for token in found:
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
    """Set exactly the tokens of an image; they are valid only with the secret key with which they were created."""
    present = {record.token_id: record for record in describe_tokens(tokens)}
    stored = image.tables[DelegationTokenRecord]
    for token_id in [token_id for token_id in present if token_id not in stored]:
        tokens.remove_token(token_id)
    for record in image.tables[DelegationTokenRecord].values():
        if present.get(record.token_id) == record:
            continue
        tokens.restore_token(
            record.token_id,
            owner=record.owner,
            requester=record.requester,
            renewers=tuple(record.renewers),
            issued_ms=record.issue_timestamp,
            latest_ms=record.max_timestamp,
            expires_ms=record.expiration_timestamp,
        )
