"""Log directories of a broker: names only, as its logs are in memory; a log can be moved between them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.topics import TopicPartitionKey

#: A partition's future directory is named topic-partition.32 digits-future, and a file name has 255 characters at most.
_FUTURE_NAME = len("-.") + 32 + len("-future")
_FILE_NAME_MAX = 255


class LogDirs:
    """The directory of each log of one broker. A new log is in the first directory; a move is immediate.

    paths: the configured directories, in order, each once.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = tuple(dict.fromkeys(paths))
        self._moved_paths: dict[TopicPartitionKey, str] = {}

    def path_of(self, key: TopicPartitionKey) -> str:
        """The directory of a log."""
        return self._moved_paths.get(key, self.paths[0])

    def check_move(self, topic: str, partition_index: int, path: str, *, cordoned: Collection[str]) -> None:
        """Reject a move that is not possible. Source: Kafka's ReplicaManager.alterReplicaLogDirs.

        Raises: INVALID_TOPIC_EXCEPTION for a name too long, LOG_DIR_NOT_FOUND, INVALID_REPLICA_ASSIGNMENT.
        """
        if len(topic) + len(str(partition_index)) + _FUTURE_NAME > _FILE_NAME_MAX:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic name is too long.")
        if path not in self.paths:
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"Log directory {path} is not one of the broker's")
        if path in cordoned:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Log directory {path} is cordoned")

    def move_log(self, key: TopicPartitionKey, path: str) -> None:
        """Move a log."""
        self._moved_paths[key] = path

    def forget_topic(self, topic_id: bytes) -> None:
        """Remove the logs of a deleted topic."""
        for key in [key for key in self._moved_paths if key[0] == topic_id]:
            del self._moved_paths[key]
