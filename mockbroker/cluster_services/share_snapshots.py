"""A node's share snapshot files: the offsets of the newest checkpoints, for each topic-partition that it has led."""

from __future__ import annotations

from mockbroker.state.metadata.topics import TopicPartitionKey


class ShareSnapshots:
    """The files by topic id and partition. They survive a restart of the broker; tests may delete or damage them."""

    def __init__(self) -> None:
        self._files: dict[TopicPartitionKey, bytes] = {}

    def read_file(self, partition_key: TopicPartitionKey) -> bytes | None:
        """A file's bytes, None when there is none."""
        return self._files.get(partition_key)

    def write_file(self, partition_key: TopicPartitionKey, data: bytes) -> None:
        """Replace a file."""
        self._files[partition_key] = data

    def delete_file(self, partition_key: TopicPartitionKey) -> None:
        """Delete a file; one that is not there is no error."""
        self._files.pop(partition_key, None)
