"""What has changed of a cluster's metadata since it was written, so that only this is described and compared."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kwire.records.metadata.access_control_entry_record import AccessControlEntryRecord
from kwire.records.metadata.client_quota_record import ClientQuotaRecord
from kwire.records.metadata.config_record import ConfigRecord
from kwire.records.metadata.delegation_token_record import DelegationTokenRecord
from kwire.records.metadata.topic_record import TopicRecord
from kwire.records.metadata.user_scram_credential_record import UserScramCredentialRecord

if TYPE_CHECKING:
    from kwire.scram import ScramMechanism
    from mockbroker.broker.cluster_state import ClusterState
    from mockbroker.metadata_log.image import MetadataImage
    from mockbroker.metadata_log.tables import Key
    from mockbroker.state.metadata.client_quotas import QuotaEntity
    from mockbroker.state.metadata.configs import Resource
    from mockbroker.state.security.acls import Acl

#: The indexes of the partitions that have changed by topic id, None for all of a topic and the topic itself.
ChangedTopics = Mapping[bytes, Collection[int] | None]


class SeenChanges(NamedTuple):
    """How many changes there had been of each part."""

    topics: int
    configs: int
    quotas: int
    credentials: int
    tokens: int
    acls: int


def count_seen(state: ClusterState) -> SeenChanges:
    """The numbers of changes now; nothing is loaded for them."""
    metadata, authorizer = state.metadata, state.authorizer
    return SeenChanges(
        metadata.version + metadata.partition_changes,
        state.configs.generation,
        state.broker_storage.quota_changes,
        state.security.credential_changes,
        state.security.token_changes,
        0 if authorizer is None else authorizer.changed.count,
    )


class ChangedParts(NamedTuple):
    """The keys of what has changed by part, None where it is unknown."""

    topics: ChangedTopics | None = None
    resources: Collection[Resource] | None = None
    quotas: Collection[QuotaEntity] | None = None
    credentials: Collection[tuple[str, ScramMechanism]] | None = None
    tokens: Collection[str] | None = None
    acls: Collection[Acl] | None = None

    def compared_keys(self, image: MetadataImage) -> dict[type[msgspec.Struct], Collection[Key]]:
        """The keys of the records of an image that may be others now, or gone, by type; not for unknown parts."""
        found: dict[type[msgspec.Struct], Collection[Key]] = {}
        if self.topics is not None:
            found[TopicRecord] = [topic_id for topic_id, indexes in self.topics.items() if indexes is None]
        if self.resources is not None:
            configs = image.configs
            found[ConfigRecord] = [key for each in self.resources for key in configs.keys_of((each.kind, each.name))]
        if self.quotas is not None:
            found[ClientQuotaRecord] = [key for entity in self.quotas for key in image.quotas.keys_of(entity)]
        if self.credentials is not None:
            found[UserScramCredentialRecord] = [(user, mechanism.number) for user, mechanism in self.credentials]
        if self.tokens is not None:
            found[DelegationTokenRecord] = self.tokens
        if self.acls is not None:
            found[AccessControlEntryRecord] = [key for acl in self.acls for key in image.acls.keys_of(acl)]
        return found


def find_changed_parts(state: ClusterState, seen: SeenChanges | None) -> ChangedParts:
    """What has changed since these numbers, None for all. Parts without changes are not loaded."""
    if seen is None:
        return ChangedParts()
    now, security, authorizer = count_seen(state), state.security, state.authorizer
    return ChangedParts(
        _changed_topics(state, seen),
        state.configs.resources_changed_since(seen.configs),
        state.broker_storage.quotas.changed.since(seen.quotas) if now.quotas else (),
        security.credentials.changed.since(seen.credentials) if now.credentials else (),
        security.tokens.changed.since(seen.tokens) if now.tokens else (),
        () if authorizer is None else authorizer.changed.since(seen.acls),
    )


def _changed_topics(state: ClusterState, seen: SeenChanges) -> ChangedTopics | None:
    """What has changed of topics, None if it is unknown."""
    metadata = state.metadata
    changed = metadata.changed_topics
    # A change that names no topic counts without being in the list.
    if changed is None or len(changed) != metadata.version + metadata.partition_changes - seen.topics:
        return None
    found: dict[bytes, dict[int, None] | None] = {}
    for topic_id, indexes in changed:
        known = found.setdefault(topic_id, {})
        if indexes is None:
            found[topic_id] = None
        elif known is not None:
            known.update(dict.fromkeys(indexes))
    return found
