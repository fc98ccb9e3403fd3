"""Log directories of a broker: names only, as its logs are in memory; a log can be moved from one to another."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError

#: A partition's future directory is named topic-partition.32 digits-future, and a file name has 255 characters at most.
_FUTURE_NAME = len("-.") + 32 + len("-future")
_FILE_NAME_MAX = 255

#: Topic id and partition index.
Place = tuple[bytes, int]


class LogDirs:
    """Where the logs of one broker are. A new log lies in the first directory; a move takes no time.

    paths: the configured directories, in order, each once.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = tuple(dict.fromkeys(paths))
        self._moved: dict[Place, str] = {}

    def path_of(self, place: Place) -> str:
        """The directory that a log lies in."""
        return self._moved.get(place, self.paths[0])

    def check(self, topic: str, partition_index: int, path: str, *, cordoned: Collection[str]) -> None:
        """Refuse what no log could be moved to. Source: Kafka's ReplicaManager.alterReplicaLogDirs.

        Raises: INVALID_TOPIC_EXCEPTION for a name too long, LOG_DIR_NOT_FOUND, INVALID_REPLICA_ASSIGNMENT.
        """
        if len(topic) + len(str(partition_index)) + _FUTURE_NAME > _FILE_NAME_MAX:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic name is too long.")
        if path not in self.paths:
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"Log directory {path} is not one of the broker's")
        if path in cordoned:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Log directory {path} is cordoned")

    def move(self, place: Place, path: str) -> None:
        """Move a log."""
        self._moved[place] = path

    def forget(self, topic_id: bytes) -> None:
        """The topic is deleted, and its logs with it."""
        for place in [place for place in self._moved if place[0] == topic_id]:
            del self._moved[place]
