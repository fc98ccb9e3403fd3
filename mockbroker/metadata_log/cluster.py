"""A whole cluster as records: its description, its restoration, and its changes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from kwire.metadata_record import MetadataRecord
from kwire.records.metadata.access_control_entry_record import AccessControlEntryRecord
from kwire.records.metadata.broker_registration_change_record import BrokerRegistrationChangeRecord
from kwire.records.metadata.client_quota_record import ClientQuotaRecord
from kwire.records.metadata.config_record import ConfigRecord
from kwire.records.metadata.delegation_token_record import DelegationTokenRecord
from kwire.records.metadata.feature_level_record import FeatureLevelRecord
from kwire.records.metadata.partition_record import PartitionRecord
from kwire.records.metadata.producer_ids_record import ProducerIdsRecord
from kwire.records.metadata.register_broker_record import RegisterBrokerRecord
from kwire.records.metadata.topic_record import TopicRecord
from kwire.records.metadata.user_scram_credential_record import UserScramCredentialRecord
from mockbroker.metadata_log import brokers, configs, features, security, topics
from mockbroker.metadata_log.brokers import NEW_EPOCH
from mockbroker.metadata_log.changes import find_changes
from mockbroker.metadata_log.image import MetadataImage
from mockbroker.metadata_log.tables import Message, Tables, make_table
from mockbroker.metadata_log.versions import with_version
from mockbroker.state.metadata.feature_levels import ELR_VERSION, METADATA_VERSION

if TYPE_CHECKING:
    from mockbroker.broker.cluster_state import ClusterState

_UUID_BYTES = 16


class MetadataTracker:
    """Follows a cluster: the records of what has changed since the last time.

    image: the records that the log has. directory_of: the id of a broker's log directory; by default the one that
    is registered, or that of its storage. Every tracker is a new run of all brokers, which register again.
    """

    def __init__(
        self, state: ClusterState, image: MetadataImage, *, directory_of: Callable[[int], bytes] | None = None
    ) -> None:
        self._state = state
        self.image = image
        self._directory_of = directory_of or self._stored_directory
        self._incarnations: dict[int, bytes] = {}
        self._seen: Hashable = None

    def collect_changes(self, next_offset: int) -> list[MetadataRecord]:
        """The records to append at an offset of the log, and their versions; none if nothing has changed.

        The image has them afterwards. The cost is that of a comparison of counters while nothing changes.
        """
        seen = _change_counters(self._state)
        if seen == self._seen:
            return []
        records = number_epochs(find_changes(self.image, self.describe()), self.image, next_offset)
        for record in records:
            self.image.apply(record)
        self._seen = seen
        level = self._state.features.get(METADATA_VERSION, 0)
        return [with_version(record, level) for record in records]

    def snapshot(self) -> list[MetadataRecord]:
        """The records of a snapshot at the end of the log."""
        level = self._state.features.get(METADATA_VERSION, 0)
        return [with_version(record, level) for record in self.image.records()]

    def describe(self) -> Tables:
        """The present state. Without an authorizer, entries of the log stay as they are."""
        state, image = self._state, self.image
        metadata, storage = state.metadata, state.broker_storage
        tables: dict[type[msgspec.Struct], Iterable[Message]] = {
            FeatureLevelRecord: features.describe_features(state.features),
            RegisterBrokerRecord: brokers.describe_brokers(state, image, self._incarnation_of, self._directory_of),
            TopicRecord: topics.describe_topics(metadata),
            PartitionRecord: topics.describe_partitions(metadata, image, self._directory_of),
            ConfigRecord: configs.describe_configs(state.configs),
            ClientQuotaRecord: configs.describe_quotas(storage.quotas),
            ProducerIdsRecord: features.describe_producer_ids(storage.next_producer_id, metadata.controller_id, image),
            UserScramCredentialRecord: security.describe_credentials(state.security.credentials),
            DelegationTokenRecord: security.describe_tokens(state.security.tokens),
        }
        if state.authorizer is not None:
            tables[AccessControlEntryRecord] = security.describe_acls(state.authorizer, image, self._new_id)
        return {record_type: make_table(records, record_type) for record_type, records in tables.items()}

    def _new_id(self) -> bytes:
        return self._state.rng.randbytes(_UUID_BYTES)

    def _incarnation_of(self, node_id: int) -> bytes:
        if node_id not in self._incarnations:
            self._incarnations[node_id] = self._new_id()
        return self._incarnations[node_id]

    def _stored_directory(self, node_id: int) -> bytes:
        registered = self.image.tables[RegisterBrokerRecord].get(node_id)
        if registered is not None and registered.log_dirs:
            return bytes(registered.log_dirs[0])
        return self._state.broker_storage.directory_id(node_id, self._state.rng.randbytes)


def restore_cluster(image: MetadataImage, state: ClusterState) -> None:
    """Put the state of an image into a cluster without topics, whose brokers are those of `stored_broker_ids`.

    Raises: MetadataLogError for what the cluster cannot represent.
    """
    features.restore_features(image, state.features)
    state.configs.elr = state.features.get(ELR_VERSION, 0) > 0
    if state.controller is not None:
        state.controller.update_rules()
    topics.restore_topics(image, state.metadata)
    configs.restore_configs(image, state.configs)
    configs.restore_quotas(image, state.broker_storage.quotas)
    state.broker_storage.next_producer_id = features.stored_producer_id(image)
    security.restore_credentials(image, state.security.credentials)
    security.restore_tokens(image, state.security.tokens)
    if state.authorizer is not None:
        security.restore_acls(image, state.authorizer)


def number_epochs(records: Iterable[Message], image: MetadataImage, next_offset: int) -> list[Message]:
    """The records with the epochs of the brokers that they name: the offset of a new registration in the log."""
    epochs = {node_id: record.broker_epoch for node_id, record in image.tables[RegisterBrokerRecord].items()}
    numbered = []
    for offset, record in enumerate(records, next_offset):
        if isinstance(record, RegisterBrokerRecord) and record.broker_epoch == NEW_EPOCH:
            epochs[record.broker_id] = offset
        if isinstance(record, (RegisterBrokerRecord, BrokerRegistrationChangeRecord, ProducerIdsRecord)):
            numbered.append(replace(record, broker_epoch=epochs.get(record.broker_id, record.broker_epoch)))
        else:
            numbered.append(record)
    return numbered


def _change_counters(state: ClusterState) -> Hashable:
    """Numbers of changes that together differ after every change of the cluster's metadata."""
    metadata, storage = state.metadata, state.broker_storage
    nodes = tuple((node_id, node.host, node.port) for node_id, node in state.nodes.items())
    return (
        metadata.version,
        metadata.partition_changes,
        tuple(metadata.node_ids),
        frozenset(metadata.fenced),
        nodes,
        state.configs.generation,
        storage.level_changes,
        storage.quota_changes,
        storage.next_producer_id,
        state.security.change_count,
        state.authorizer.change_count if state.authorizer is not None else 0,
    )
