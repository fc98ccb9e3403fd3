"""The data directory of a server: its options, its opening, and what is logged of it. Loaded only where it is used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mockbroker.log.subjects import STORAGE
from mockbroker.net.listeners import check_node_count

if TYPE_CHECKING:
    from pathlib import Path

    from mockbroker.config.broker_config import BrokerConfig
    from mockbroker.metadata_log.stored_cluster import StoredCluster

#: Where Kafka stores its logs; a data directory is used in their place.
_DIRECTORY_NAMES = ("log.dir", "log.dirs", "metadata.log.dir")


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """Where a cluster stores its logs. fsync: acknowledgements wait for the disk. repair: logs are cut at damage."""

    path: Path
    fsync: bool = False
    repair: bool = False


def open_storage(storage: StorageOptions, config: BrokerConfig, nodes: int | None) -> tuple[StoredCluster, int]:
    """Open the data directory. Returns: it, and the number of nodes: the given one, the stored one, or 1.

    Raises: ConfigError.
    """
    from mockbroker.disk_storage.data_directory import DirectoryOptions
    from mockbroker.metadata_log.stored_cluster import StoredCluster, stored_node_count

    first_node = config.integer("node.id")
    count = nodes if nodes is not None else stored_node_count(storage.path, first_node) or 1
    check_node_count(count)
    stored = StoredCluster.open(
        storage.path,
        first_node=first_node,
        node_count=count,
        options=DirectoryOptions(fsync=storage.fsync, repair=storage.repair, report=_log_mended),
        snapshot_after=config.integer("metadata.log.max.record.bytes.between.snapshots"),
    )
    return stored, count


def log_storage(stored: StoredCluster, config: BrokerConfig) -> None:
    """Log which directory is used, and which configurations have no effect on that."""
    folder, count = str(stored.path), len(stored.topic_ids)
    template = "the data directory is %(folder)s"
    if not stored.is_new:
        template += ", in which the cluster was stored"
    STORAGE.info(template, folder=folder, topics=count)
    names = [name for name in _DIRECTORY_NAMES if name in config.given]
    if names:
        template = "%(names)s has no effect: the directories of the nodes are in %(folder)s"
        STORAGE.info(template, names=", ".join(names), folder=folder)


def _log_mended(line: str) -> None:
    STORAGE.warning("%(line)s", line=line)
