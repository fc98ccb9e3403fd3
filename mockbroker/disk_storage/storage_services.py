"""`StorageServices`: what the files of all partitions of a data directory share."""

from __future__ import annotations

from collections.abc import Callable

from mockbroker.disk_storage.flush_schedule import FlushSchedule
from mockbroker.disk_storage.memory_cache import MemoryCache
from mockbroker.disk_storage.node_folders import node_folder
from mockbroker.disk_storage.open_files import OpenFiles
from mockbroker.disk_storage.removals import Removals
from mockbroker.disk_storage.replica_folders import ReplicaFolders
from mockbroker.disk_storage.segment_log import storage_error
from mockbroker.kafka_error import KafkaError
from mockbroker.log_directory.file_layer import FileLayer
from mockbroker.log_directory.formats import names

#: The end of the name of a folder whose topic or replica is deleted. Source: Kafka's LogFileUtils.
DELETED_FOLDER = "-delete"
#: The end of the name of a folder that no topic has any more. Source: as above.
STRAY_FOLDER = "-stray"
_FOLDER_NAME_MAX = 255
_NUMBER_MAX = (1 << 128) - 1


class StorageServices:
    """Open files, memory, removals and the schedule. report: called with a line for what the user has to know.

    delay_ms_of: `file.delete.delay.ms` of a topic for a path, which is in the directory of a node.
    """

    def __init__(self, files: FileLayer, report: Callable[[str], None], delay_ms_of: Callable[[str, str], int]) -> None:
        self.report = report
        self.files = files
        self.open_files = OpenFiles(files)
        self.cache = MemoryCache()
        self.removals = Removals(files, report)
        self.schedule: FlushSchedule
        self._delay_ms_of = delay_ms_of
        self._failure: str | None = None

    def fail(self, error: OSError) -> KafkaError:
        """The error of an operation that failed; it is reported unless the one before failed in the same way."""
        failed = storage_error(error)
        if self._failure != error.strerror:
            self._failure = error.strerror
            self.report(f"{failed.message}; refused with KAFKA_STORAGE_ERROR until it can be written again")
        return failed

    def clear_failure(self) -> None:
        """Something could be written: the next failure is reported again."""
        self._failure = None

    def folder_of(self, node_id: int, name: str) -> str:
        """The folder of a partition in the log directory of a node."""
        return f"{node_folder(node_id)}/{name}"

    def remove_file(self, folders: ReplicaFolders, name: str, topic: str) -> bool:
        """Rename a file of a partition, and remove it after the delay of its topic. Returns: whether it is renamed."""
        try:
            self.retire_file(folders, name, topic)
        except OSError as error:
            self.report(f"{folders.path(name)}: cannot be removed: {error}")
            return False
        return True

    def retire_file(self, folders: ReplicaFolders, name: str, topic: str) -> None:
        """As `remove_file`. Raises: OSError."""
        path = folders.retire(name, names.DELETED)
        if path is not None:
            self.removals.add_file(path, delay_ms=self._delay_ms_of(topic, path))

    def remove_folder(self, folder: str, topic: str, topic_id: bytes) -> None:
        """Rename the folder of a partition, and remove it after the delay of its topic."""
        try:
            renamed = self._rename_folder(folder, int.from_bytes(topic_id), DELETED_FOLDER)
        except OSError as error:
            self.report(f"{folder}: cannot be removed: {error}")
            return
        self.removals.add_folder(renamed, delay_ms=self._delay_ms_of(topic, renamed))

    def set_aside(self, folder: str) -> str:
        """Rename the folder of a partition that no topic has. Returns: its new path. Raises: OSError."""
        return self._rename_folder(folder, 0, STRAY_FOLDER)

    def _rename_folder(self, folder: str, number: int, ending: str) -> str:
        """Rename a folder to `<name>.<32 digits><ending>`, where the digits are the first ones that are not in use.

        Raises: OSError.
        """
        node, name = folder.rsplit("/", 1)
        self.open_files.close_folder(folder)
        present = set(self.files.list_names(node))
        while True:
            suffix = f".{number:032x}{ending}"
            renamed = f"{name[: _FOLDER_NAME_MAX - len(suffix)]}{suffix}"
            if renamed not in present:
                break
            number = (number + 1) & _NUMBER_MAX
        self.files.rename(folder, f"{node}/{renamed}")
        return f"{node}/{renamed}"
