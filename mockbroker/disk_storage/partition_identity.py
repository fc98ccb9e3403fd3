"""`PartitionIdentity`: names a partition and its folder."""

from __future__ import annotations

from typing import NamedTuple

from mockbroker.log_directory.formats import names


class PartitionIdentity(NamedTuple):
    """Whose files they are."""

    topic: str
    topic_id: bytes
    partition_index: int

    @property
    def folder_name(self) -> str:
        """The name of its folder in each log directory."""
        return names.folder_name(self.topic, self.partition_index)
