"""`DataDirectory`: the folder in which a cluster stores everything: a log directory in Kafka's layout for each node.

A node's log directory is `node-<id>`. Source: Kafka's LogManager, MetaPropertiesEnsemble and CleanShutdownFileHandler.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from mockbroker.disk_storage.boot_id import read_boot_id
from mockbroker.disk_storage.directory_options import DirectoryOptions
from mockbroker.disk_storage.disk_logs import DiskLogs
from mockbroker.disk_storage.node_folders import node_folder
from mockbroker.disk_storage.own_replicas import are_separated, remove_separation_marks, separate_replicas
from mockbroker.log_directory.directory_lock import DirectoryLock
from mockbroker.log_directory.disk_files import DiskFiles
from mockbroker.log_directory.file_layer import FileLayer
from mockbroker.log_directory.formats import properties
from mockbroker.log_directory.formats.damage import DamagedFileError
from mockbroker.log_directory.formats.properties import DirectoryIdentity
from mockbroker.state.storage.log_config import TopicConfigs

__all__ = ["DataDirectory", "DirectoryOptions"]

#: In each node's directory: the boot id of the machine while a process uses it, empty afterwards.
BOOT_ID = ".mockbroker-boot-id"
#: In each node's directory after a clean shutdown: what Kafka's mark has, which another program replaces by its own.
CLEAN_END = ".mockbroker-clean"
_UUID_SIZE = 16


class DataDirectory:
    """An open data directory.

    files: those below it. cluster_id: None in a new directory. directory_ids: by node, where there is one. was_clean:
    the cluster was shut down, so that every file is complete. was_closed_here: by mockbroker, not by a Kafka since
    then. is_same_boot: the machine has not been started again
    since the directory was used: everything that was written is there, even if the process was killed.
    """

    def __init__(
        self, files: FileLayer, node_ids: Iterable[int], options: DirectoryOptions, *, boot_id: str | None = None
    ) -> None:
        """Open the directory without a lock. Raises: DamagedFileError, OSError."""
        self.files = files
        self.node_ids = tuple(node_ids)
        self.options = options
        self.cluster_id: str | None = None
        self.directory_ids: dict[int, bytes] = {}
        self._locks: list[DirectoryLock] = []
        for node_id in self.node_ids:
            files.create_folder(self.node_folder(node_id))
            self._read_identity(node_id)
        marks = [self._read_clean_marks(node_id) for node_id in self.node_ids]
        self.was_clean = all(mark is not None for mark, _ in marks)
        self.was_closed_here = self.was_clean and all(mark == own for mark, own in marks)
        self.is_same_boot = boot_id is not None and all(
            files.read_file(f"{self.node_folder(node_id)}/{BOOT_ID}") == boot_id.encode() for node_id in self.node_ids
        )
        self._boot_id = boot_id or ""
        self._shares_files = False

    @classmethod
    def open(cls, path: Path, node_ids: Iterable[int], options: DirectoryOptions) -> DataDirectory:
        """Open a directory for this process alone; it is created if it does not exist.

        Raises: DirectoryInUseError, DamagedFileError, OSError.
        """
        node_ids = tuple(node_ids)
        files = DiskFiles(path)
        locks: list[DirectoryLock] = []
        try:
            for node_id in node_ids:
                files.create_folder(cls.node_folder(node_id))
                locks.append(DirectoryLock(path / cls.node_folder(node_id)))
            directory = cls(files, node_ids, options, boot_id=read_boot_id())
        except BaseException:
            for lock in locks:
                lock.release()
            raise
        directory._locks = locks
        return directory

    @staticmethod
    def node_folder(node_id: int) -> str:
        """The name of a node's log directory."""
        return node_folder(node_id)

    def open_logs(self, configs: TopicConfigs) -> DiskLogs:
        """Its logs, which all replicas share. configs: of topics and brokers. Raises: OSError."""
        logs = self._open_logs(self.node_ids, configs)
        logs.leader_is_first = are_separated(self.files, self.node_ids)
        self._shares_files = True
        return logs

    def open_logs_of(self, node_id: int, configs: TopicConfigs) -> DiskLogs:
        """The logs of one node's replicas, which it does not share. Raises: OSError."""
        separate_replicas(self.files, node_id, self.node_ids)
        return self._open_logs((node_id,), configs)

    def _open_logs(self, node_ids: Sequence[int], configs: TopicConfigs) -> DiskLogs:
        is_complete = self.was_clean or self.is_same_boot
        logs = DiskLogs(self.files, node_ids, self.options, configs, is_clean=self.was_clean, is_complete=is_complete)
        if self.was_clean and not self.was_closed_here:
            logs.forget_summaries()
        return logs

    def initialize(self, cluster_id: str, rng: random.Random) -> None:
        """Write the identity of nodes that have none. Raises: OSError."""
        self.cluster_id = cluster_id
        for node_id in self.node_ids:
            if node_id not in self.directory_ids:
                self.directory_ids[node_id] = rng.randbytes(_UUID_SIZE)
                identity = DirectoryIdentity(cluster_id, node_id, self.directory_ids[node_id])
                path = f"{self.node_folder(node_id)}/{properties.META_PROPERTIES}"
                self.files.write_file(path, properties.write_meta_properties(identity), sync=True)

    def begin_use(self) -> None:
        """The logs have been read, and are going to be changed: the next start finds those of this process.

        Before that a start that was refused, or killed, changes nothing that the next one relies on. Raises: OSError.
        """
        for node_id in self.node_ids:
            folder = self.node_folder(node_id)
            self.files.write_file(f"{folder}/{BOOT_ID}", self._boot_id.encode())
            self.files.remove(f"{folder}/{properties.CLEAN_SHUTDOWN}")
            self.files.remove(f"{folder}/{CLEAN_END}")
        if self._shares_files:
            remove_separation_marks(self.files, self.node_ids)

    def close(self, *, clean: bool, broker_epochs: Mapping[int, int] | None = None) -> None:
        """Release the directory. clean: all logs are closed and everything is written. Raises: OSError."""
        try:
            for node_id in self.node_ids if clean else ():
                mark = properties.write_clean_shutdown((broker_epochs or {}).get(node_id, -1))
                folder = self.node_folder(node_id)
                self.files.write_file(f"{folder}/{CLEAN_END}", mark)
                self.files.write_file(f"{folder}/{properties.CLEAN_SHUTDOWN}", mark, sync=True)
        finally:
            for lock in self._locks:
                lock.release()
            self._locks = []

    def _read_identity(self, node_id: int) -> None:
        path = f"{self.node_folder(node_id)}/{properties.META_PROPERTIES}"
        data = self.files.read_file(path)
        if data is None:
            return
        identity = properties.read_meta_properties(data, path)
        if identity.node_id != node_id:
            raise DamagedFileError(path, None, f"the directory of node {identity.node_id}, not {node_id}")
        if self.cluster_id not in (None, identity.cluster_id):
            problem = f"cluster id {identity.cluster_id}; the other nodes have {self.cluster_id}"
            raise DamagedFileError(path, None, problem)
        self.cluster_id = identity.cluster_id
        self.directory_ids[node_id] = identity.directory_id

    def _read_clean_marks(self, node_id: int) -> tuple[bytes | None, bytes | None]:
        """The marks of a clean shutdown in the node's directory: Kafka's, and that of mockbroker."""
        folder = self.node_folder(node_id)
        return self.files.read_file(f"{folder}/{properties.CLEAN_SHUTDOWN}"), self.files.read_file(
            f"{folder}/{CLEAN_END}"
        )
