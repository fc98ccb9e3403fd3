"""`MetadataTracker`: follows the metadata of a cluster, and finds the records of what has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any

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
from mockbroker.metadata_log.brokers import NEW_EPOCH, BrokerRuns
from mockbroker.metadata_log.changed_parts import (
    ChangedParts,
    ChangedTopics,
    SeenChanges,
    count_seen,
    find_changed_parts,
)
from mockbroker.metadata_log.changes import find_changes
from mockbroker.metadata_log.image import MetadataImage
from mockbroker.metadata_log.tables import Message, Tables, make_table
from mockbroker.metadata_log.versions import with_version
from mockbroker.state.metadata.feature_levels import METADATA_VERSION

if TYPE_CHECKING:
    from mockbroker.broker.cluster_state import ClusterState

_UUID_BYTES = 16
_EVERYTHING = ChangedParts()


class Subject(IntEnum):
    """A part of the metadata that is compared as a whole; of topics only those that have changed."""

    BROKERS = 0
    FEATURES = 1
    TOPICS = 2
    CONFIGS = 3
    QUOTAS = 4
    PRODUCER_IDS = 5
    SECRETS = 6
    ACLS = 7


#: Records by their type.
Described = Mapping[type[msgspec.Struct], Iterable[Message]]
#: Numbers of changes by subject.
_Counters = tuple[object, ...]
_UNKNOWN: _Counters = (None,) * len(Subject)


class MetadataTracker:
    """Follows a cluster: the records of what has changed since the last time.

    image: the records that the log has, to which the log or `collect_changes` adds. directory_of: the id of a broker's
    log directory; by default the one that is registered, or that of its storage. Every tracker is a new run of all
    brokers, which register again.
    """

    def __init__(
        self, state: ClusterState, image: MetadataImage, *, directory_of: Callable[[int], bytes] | None = None
    ) -> None:
        self._state = state
        self.image = image
        self._directory_of = directory_of or self._stored_directory
        self._runs = BrokerRuns(self._new_id)
        self._counters = _UNKNOWN
        self._seen: SeenChanges | None = None
        state.metadata.changed_topics = []

    def has_changes(self) -> bool:
        """Whether anything may have changed since the last time; the cost is that of a comparison of counters."""
        # Asked twice for each request: nothing is created for brokers that are as they were.
        state, seen = self._state, self._counters
        return seen is _UNKNOWN or _count_numbers(state) != seen[1:] or _have_brokers_changed(state, seen[0])

    def find_records(self, next_offset: int) -> list[MetadataRecord]:
        """The records to append at an offset of the log, with their versions; none if nothing has changed.

        They count as written only after `mark_written`.
        """
        counters = _count_changes(self._state)
        subjects = [subject for subject in Subject if counters[subject] != self._counters[subject]]
        if not subjects:
            return []
        changed = find_changed_parts(self._state, self._seen)
        tables = self.describe(subjects, changed)
        found = find_changes(self.image, tables, compared=changed.compared_keys(self.image))
        level = self._state.features.get(METADATA_VERSION, 0)
        return [with_version(record, level) for record in number_epochs(found, self.image, next_offset)]

    def mark_written(self) -> None:
        """The log has everything that has changed up to now."""
        metadata = self._state.metadata
        self._counters = _count_changes(self._state)
        self._seen = count_seen(self._state)
        metadata.changed_topics = []

    def mark_seen(self) -> None:
        """What has changed up to now is left for later: `forget_counters` brings it back."""
        self._counters = _count_changes(self._state)

    def forget_counters(self) -> None:
        """Compare everything the next time."""
        self._counters = _UNKNOWN

    def collect_changes(self, next_offset: int) -> list[MetadataRecord]:
        """The records of `find_records`, which the image has afterwards."""
        records = self.find_records(next_offset)
        for record in records:
            self.image.apply(record.message)
        self.mark_written()
        return records

    def snapshot(self) -> list[MetadataRecord]:
        """The records of a snapshot at the end of the log."""
        level = self._state.features.get(METADATA_VERSION, 0)
        return [with_version(record, level) for record in self.image.records()]

    def describe(self, subjects: Iterable[Subject] = tuple(Subject), changed: ChangedParts = _EVERYTHING) -> Tables:
        """The present state of these subjects. changed: only of these parts.

        Without an authorizer, entries of the log stay as they are.
        """
        records: dict[type[msgspec.Struct], Iterable[Message]] = {}
        for subject in subjects:
            records |= self._describe_subject(subject, changed)
        return {record_type: make_table(found, record_type) for record_type, found in records.items()}

    def _describe_subject(self, subject: Subject, changed: ChangedParts) -> Described:
        state, image, storage = self._state, self.image, self._state.broker_storage
        match subject:
            case Subject.FEATURES:
                return {FeatureLevelRecord: features.describe_features(state.features)}
            case Subject.BROKERS:
                return {RegisterBrokerRecord: brokers.describe_brokers(state, image, self._runs, self._directory_of)}
            case Subject.TOPICS:
                return self._describe_topics(changed.topics)
            case Subject.CONFIGS:
                return {ConfigRecord: configs.describe_configs(state.configs, changed.resources)}
            case Subject.QUOTAS:
                return {ClientQuotaRecord: configs.describe_quotas(storage.quotas, changed.quotas)}
            case Subject.PRODUCER_IDS:
                next_id, controller_id = storage.next_producer_id, state.metadata.controller_id
                return {ProducerIdsRecord: features.describe_producer_ids(next_id, controller_id, image)}
        return self._describe_security(subject, changed)

    def _describe_topics(self, changed: ChangedTopics | None) -> Described:
        metadata, level = self._state.metadata, self._state.features.get(METADATA_VERSION, 0)
        if changed is None:
            changed = dict.fromkeys(topic.topic_id for topic in metadata.topics())
        present = [(topic, indexes) for key, indexes in changed.items() if (topic := metadata.topic_by_id(key))]
        partitions = [
            (topic, partition)
            for topic, indexes in present
            for partition in (topic.partitions if indexes is None else map(topic.partition, indexes))
            if partition is not None
        ]
        return {
            TopicRecord: topics.describe_topics(topic for topic, indexes in present if indexes is None),
            PartitionRecord: topics.describe_partitions(partitions, self.image, self._directory_of, level=level),
        }

    def _describe_security(self, subject: Subject, changed: ChangedParts) -> Described:
        state = self._state
        if subject is Subject.SECRETS:
            return {
                UserScramCredentialRecord: security.describe_credentials(
                    state.security.credentials, changed.credentials
                ),
                DelegationTokenRecord: security.describe_tokens(state.security.tokens, changed.tokens),
            }
        if state.authorizer is None:
            return {}
        entries = security.describe_acls(state.authorizer, self.image, self._new_id, changed.acls)
        return {AccessControlEntryRecord: entries}

    def _new_id(self) -> bytes:
        return self._state.rng.randbytes(_UUID_BYTES)

    def _stored_directory(self, node_id: int) -> bytes:
        registered = self.image.tables[RegisterBrokerRecord].get(node_id)
        if registered is not None and registered.log_dirs:
            return bytes(registered.log_dirs[0])
        return self._state.broker_storage.directory_id(node_id, self._state.rng.randbytes)


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


def _count_changes(state: ClusterState) -> _Counters:
    """Numbers of changes by subject, which differ after every change of the cluster's metadata."""
    metadata = state.metadata
    nodes = [(node.host, node.port, node) for node in state.nodes.values()]
    stopped = (set(metadata.fenced), set(metadata.in_controlled_shutdown))
    # The configuration of a broker may cordon its directory.
    brokers_seen = (nodes, metadata.node_ids, *stopped, state.configs.generation)
    return (brokers_seen, *_count_numbers(state))


def _count_numbers(state: ClusterState) -> _Counters:
    """The numbers of all subjects but the first one, that of brokers."""
    metadata, storage, authorizer = state.metadata, state.broker_storage, state.authorizer
    return (
        storage.level_changes,
        (metadata.version, metadata.partition_changes),
        state.configs.generation,
        storage.quota_changes,
        storage.next_producer_id,
        state.security.change_count,
        0 if authorizer is None else authorizer.changed.count,
    )


def _have_brokers_changed(state: ClusterState, seen: Any) -> bool:
    """Compare the brokers with those that `_count_changes` saw; changes of configuration are compared already."""
    nodes, node_ids, fenced, stopped, _ = seen
    metadata = state.metadata
    if metadata.fenced != fenced or metadata.in_controlled_shutdown != stopped or metadata.node_ids != node_ids:
        return True
    if len(state.nodes) != len(nodes):
        return True
    for node, (host, port, former) in zip(state.nodes.values(), nodes, strict=True):
        if node is not former or node.port != port or node.host != host:
            return True
    return False
