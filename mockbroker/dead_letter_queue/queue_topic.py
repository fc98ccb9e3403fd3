"""Topics of dead-letter queues: which one a group has, whether it may be used, and its creation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.configs import Resource, ResourceKind
from mockbroker.state.security.operations import CLUSTER_NAME, AclOperation, ResourceType
from mockbroker.state.settings import read_int

if TYPE_CHECKING:
    from mockbroker.state.metadata.cluster_image import ClusterImage, Partition, Topic
    from mockbroker.state.metadata.configs import Configs
    from mockbroker.state.security.authorizer import Authorizer

_TOPIC_NAME, _COPIES = "errors.deadletterqueue.topic.name", "errors.deadletterqueue.copy.record.enable"
_IS_QUEUE = "errors.deadletterqueue.group.enable"
_PREFIX, _CREATES = "errors.deadletterqueue.topic.name.prefix", "errors.deadletterqueue.auto.create.topics.enable"
_RESERVED_PREFIX = "__"
#: Configuration of a queue that the broker creates: the time of a dead letter is that of its write.
_NEW_QUEUE = {_IS_QUEUE: "true", "message.timestamp.type": "CreateTime"}
#: Who a broker is for another one, on a listener without authentication.
_BROKER_PRINCIPAL, _BROKER_HOST = "User:ANONYMOUS", "127.0.0.1"


class QueueTopics:
    """The queues of all groups. Source: Kafka's ShareGroupDLQStateManager and its metadata cache helper.

    node_id: of the broker whose configuration counts. authorizer: checks the brokers too, which write to a queue in
    their own name.
    """

    def __init__(self, metadata: ClusterImage, configs: Configs, node_id: int, authorizer: Authorizer | None) -> None:
        self._metadata = metadata
        self._configs = configs
        self._node_id = node_id
        self._broker_config = configs.broker(node_id)
        self._authorizer = authorizer

    def name(self, group_id: str) -> str:
        """The name of the group's queue, empty for none."""
        return str(self._configs.group(group_id, self._node_id)[_TOPIC_NAME])

    def copies_records(self, group_id: str) -> bool:
        """Whether dead letters have key and value of the original records."""
        return bool(self._configs.group(group_id, self._node_id)[_COPIES])

    def find(self, group_id: str) -> Topic | None:
        """The topic of the group's queue, None if it does not exist."""
        return self._metadata.topic(self.name(group_id))

    def find_partition(self, queue: Topic, source_index: int) -> Partition | None:
        """The partition for records of a source partition, None while it has no leader."""
        partition = queue.partitions[source_index % len(queue.partitions)]
        return None if partition.leader < 0 else partition

    def max_batch_bytes(self, queue_name: str) -> int:
        """The size limit of a batch in the queue."""
        return read_int(self._configs.topic(queue_name, self._node_id), "max.message.bytes")

    def refusal(self, group_id: str) -> KafkaError | None:
        """Why the group's queue cannot be used as it is configured now, or None (share-semantics 9.3)."""
        name, queue = self.name(group_id), self.find(group_id)
        prefix = str(self._broker_config[_PREFIX] or "")
        why = None
        if not name:
            why = "the group has no dead-letter queue"
        elif name.startswith(_RESERVED_PREFIX):
            why = f"the name begins with {_RESERVED_PREFIX}"
        elif queue is not None and not self._configs.topic(name, self._node_id)[_IS_QUEUE]:
            why = f"{_IS_QUEUE} is false"
        elif queue is None and not self._broker_config[_CREATES]:
            why = f"the topic does not exist, and {_CREATES} is false"
        elif not name.startswith(prefix):
            why = f"the name does not begin with {prefix!r}"
        return None if why is None else KafkaError(ErrorCode.INVALID_CONFIG, f"{name!r} of {group_id}: {why}")

    def create(self, name: str) -> None:
        """Create a queue with the broker's number of partitions and replicas. Raises: as CreateTopics."""
        may_create = self._is_allowed(AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
        if not may_create and not self._is_allowed(AclOperation.CREATE, ResourceType.TOPIC, name):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        topic = self._metadata.plan_topic(name)
        self._configs.set_overrides(Resource(ResourceKind.TOPIC, name), _NEW_QUEUE)
        self._metadata.add_topic(topic)

    def check_write(self, topic: Topic, partition: Partition) -> None:
        """Check that a broker may write now. Raises: TOPIC_AUTHORIZATION_FAILED, NOT_ENOUGH_REPLICAS."""
        if not self._is_allowed(AclOperation.WRITE, ResourceType.TOPIC, topic.name):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        least = min(
            read_int(self._configs.topic(topic.name, self._node_id), "min.insync.replicas"), len(partition.replicas)
        )
        if len(partition.isr) < least:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, f"{len(partition.isr)} replica(s) in sync, not {least}")

    def _is_allowed(self, operation: AclOperation, kind: ResourceType, name: str) -> bool:
        authorizer = self._authorizer
        return authorizer is None or authorizer.is_allowed(_BROKER_PRINCIPAL, _BROKER_HOST, operation, kind, name)
