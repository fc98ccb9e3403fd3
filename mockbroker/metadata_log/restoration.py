"""A cluster gets the state of an image: at its start, and after a change that could not be written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.records.metadata.access_control_entry_record import AccessControlEntryRecord
from kwire.records.metadata.client_quota_record import ClientQuotaRecord
from kwire.records.metadata.delegation_token_record import DelegationTokenRecord
from kwire.records.metadata.partition_record import PartitionRecord
from kwire.records.metadata.topic_record import TopicRecord
from kwire.records.metadata.user_scram_credential_record import UserScramCredentialRecord
from mockbroker.metadata_log import configs, features, security, topics
from mockbroker.state.metadata import leadership
from mockbroker.state.metadata.feature_levels import ELR_VERSION

if TYPE_CHECKING:
    from mockbroker.broker.cluster_state import ClusterState
    from mockbroker.metadata_log.image import MetadataImage


def restore_cluster(image: MetadataImage, state: ClusterState) -> None:
    """Put the state of an image into a cluster without topics, whose brokers are those of `stored_broker_ids`.

    Raises: MetadataLogError for what the cluster cannot represent.
    """
    _restore_features(image, state)
    topics.restore_topics(image, state.metadata)
    state.broker_storage.next_producer_id = features.stored_producer_id(image)
    _restore_settings(image, state)
    topics.restore_eligible_replicas(image, state.metadata)


def revert_changes(image: MetadataImage, state: ClusterState) -> None:
    """Undo what has changed since an image, as far as no client can have noticed it.

    New topics and partitions are removed. Leaders and replicas stay, as do the brokers that run: their records are
    written later. Deleted topics are not undone: their records are written before the deletion.
    """
    metadata, storage = state.metadata, state.broker_storage
    for topic in metadata.topics():
        if topic.topic_id not in image.tables[TopicRecord]:
            metadata.delete_topic(topic)
            continue
        stored = len(topic.partitions)
        while stored and (topic.topic_id, stored - 1) not in image.tables[PartitionRecord]:
            stored -= 1
        if stored < len(topic.partitions):
            metadata.remove_partitions(topic, stored)
    storage.forget_producer_ids(features.stored_producer_id(image))
    if features.describes_others(image, state.features):
        _restore_features(image, state)
        storage.level_changes += 1
    _restore_settings(image, state)


def _restore_features(image: MetadataImage, state: ClusterState) -> None:
    features.restore_features(image, state.features)
    state.configs.elr = state.features.get(ELR_VERSION, 0) > 0
    if state.controller is not None:
        state.controller.update_rules()


def _restore_settings(image: MetadataImage, state: ClusterState) -> None:
    """Restore what has no effect on topics; a module that nothing has needed yet is loaded only if it is used now."""
    configs.restore_configs(image, state.configs)
    if image.tables[ClientQuotaRecord] or state.broker_storage.quota_changes:
        configs.restore_quotas(image, state.broker_storage.quotas)
    changes = state.security.change_count
    if changes or image.tables[UserScramCredentialRecord]:
        security.restore_credentials(image, state.security.credentials)
    if changes or image.tables[DelegationTokenRecord]:
        security.restore_tokens(image, state.security.tokens)
    if state.authorizer is not None and (state.authorizer.changed.count or image.tables[AccessControlEntryRecord]):
        security.restore_acls(image, state.authorizer)


def elect_leaders(state: ClusterState) -> None:
    """Elect a leader of every partition, as after the start of all brokers: the same in the next epoch, or another.

    Records that were not on the disk when the machine crashed may be missing, so that what follows needs a new epoch.
    """
    metadata, controller = state.metadata, state.controller
    assert controller is not None
    for topic in metadata.topics():
        for partition in topic.partitions:
            if partition.leader in metadata.node_ids:
                metadata.change_leader(topic, partition.index, partition.leader)
            else:
                target = leadership.PartitionTarget.from_partition(partition)
                leadership.change_partition(metadata, topic, partition, target, controller.rules)
