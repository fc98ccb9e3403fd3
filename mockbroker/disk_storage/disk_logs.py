"""`DiskLogs`: opens the logs of a data directory, and writes their checkpoints. Source: Kafka's LogManager."""

from __future__ import annotations

from collections.abc import Container, Sequence

from kwire import uuids
from mockbroker.disk_storage.directory_options import DirectoryOptions
from mockbroker.disk_storage.flush_schedule import CheckpointIntervals, FlushSchedule
from mockbroker.disk_storage.node_folders import node_folder
from mockbroker.disk_storage.offset_checkpoints import OffsetCheckpoints, StoredOffsets
from mockbroker.disk_storage.partition_files import PartitionFiles
from mockbroker.disk_storage.partition_identity import PartitionIdentity
from mockbroker.disk_storage.partition_loading import StoredLog, load_partition_files
from mockbroker.disk_storage.replica_folders import ReplicaFolders
from mockbroker.disk_storage.segment_loading import LoadOptions
from mockbroker.disk_storage.storage_services import DELETED_FOLDER, StorageServices
from mockbroker.log_directory.batch_scan import FieldLimits
from mockbroker.log_directory.file_layer import FileLayer
from mockbroker.log_directory.formats import names, properties
from mockbroker.log_directory.formats.damage import DamagedFileError
from mockbroker.state.settings import read_int
from mockbroker.state.storage.batches.batch_storage import RestoredState
from mockbroker.state.storage.log_config import TopicConfigs

#: Elections of which a crash of the machine may have lost the records, at most: a larger epoch is damage.
_EPOCHS_AHEAD_MAX = 10_000
_METADATA_FOLDER = ("__cluster_metadata", 0)
#: What `_measure_log` returns where there is no folder.
_NO_FOLDER = (-1, -1)


class DiskLogs:
    """The logs of an open data directory.

    is_clean: they were shut down. is_complete: all that was written is there. configs: of topics and brokers.
    leader_is_first: each replica had a log of its own, of which the leader's is the right one, even if it is shorter.
    """

    def __init__(
        self,
        files: FileLayer,
        node_ids: Sequence[int],
        options: DirectoryOptions,
        configs: TopicConfigs,
        *,
        is_clean: bool,
        is_complete: bool,
    ) -> None:
        self.leader_is_first = False
        self._options = options
        self._configs = configs
        self._is_clean = is_clean
        self._is_complete = is_complete
        self._services = StorageServices(files, options.report, self._delete_delay_ms)
        self._checkpoints = OffsetCheckpoints(files, options.report)
        self._partitions: dict[tuple[str, int], PartitionFiles] = {}
        self._node_ids = {node_folder(node_id): node_id for node_id in node_ids}
        self._node_folders = list(self._node_ids)
        self._stored = {folder: self._checkpoints.read(folder) for folder in self._node_folders}
        brokers = configs.brokers()
        intervals = CheckpointIntervals(
            max(1, read_int(brokers, "log.flush.offset.checkpoint.interval.ms")),
            max(1, read_int(brokers, "replica.high.watermark.checkpoint.interval.ms")),
        )
        self._services.schedule = FlushSchedule(intervals, self._write_checkpoints, options.report, fsync=options.fsync)
        self._remove_deleted_folders()

    def open_log(
        self,
        topic_name: str,
        topic_id: bytes,
        partition_index: int,
        node_ids: Sequence[int],
        *,
        leader_epoch: int,
        now_ms: int,
    ) -> tuple[PartitionFiles, RestoredState]:
        """Open the files of a partition, or create them. node_ids: of its replicas, the leader first.

        leader_epoch: of the metadata; after a crash of the machine the log can have later ones.

        Raises: KAFKA_STORAGE_ERROR if they cannot be created or read; DamagedFileError.
        """
        identity = PartitionIdentity(topic_name, topic_id, partition_index)
        paths = [self._services.folder_of(node_id, identity.folder_name) for node_id in node_ids]
        try:
            first = paths[0] if self.leader_is_first else None
            sizes = {path: self._measure_log(path, topic_id) for path in paths}
            paths.sort(key=lambda path: (path == first, sizes[path]), reverse=True)
            folders = ReplicaFolders(self._services.open_files, paths, self._services.report)
            for folder in folders.folders:  # A replica whose files could not be linked has none.
                self._services.files.create_folder(folder)
            key = (topic_name, partition_index)
            stored = self._stored[folders.first.split("/")[0]]
            stored = stored.of_topic(key, topic_id, has_folder=sizes[folders.first] != _NO_FOLDER)
            options = self._load_options(stored, identity, node_ids[0], leader_epoch, now_ms)
            files, state = load_partition_files(
                identity, folders, self._services, options, self._stored_log(stored, key)
            )
            folders.create_folders()
            if not folders.exists(properties.PARTITION_METADATA):
                folders.write_file(properties.PARTITION_METADATA, properties.write_partition_metadata(topic_id))
        except OSError as error:
            raise self._services.fail(error) from error
        files.on_removed = lambda: self._forget(key)
        self._partitions[key] = files
        return files, state._replace(
            high_watermark=stored.high_watermarks.get(key), cleaned_to=stored.cleaned_offsets.get(key)
        )

    def forget_summaries(self) -> None:
        """Another program has changed the logs since they were written."""
        self._stored = {folder: stored._replace(summaries={}) for folder, stored in self._stored.items()}

    def remove_unknown(self, is_known: Container[tuple[str, int]]) -> None:
        """Rename the folders of all partitions but the known ones, which were opened."""
        for folder in self._node_folders:
            for name in self._services.files.list_names(folder):
                found = names.parse_folder_name(name)
                if found is None or found in is_known or found == _METADATA_FOLDER:
                    continue
                path = f"{folder}/{name}"
                self._services.report(f"{path}: no such topic; renamed to {self._services.set_aside(path)}")

    def next_deadline_ms(self, *, now_ms: int) -> int | None:
        """When something has to be written or removed, or None."""
        flush_ms = self._services.schedule.next_deadline_ms()
        if self._services.removals.is_empty:
            return flush_ms
        removal_ms = self._services.removals.next_deadline_ms(now_ms=now_ms)
        return min((due_ms for due_ms in (flush_ms, removal_ms) if due_ms is not None), default=None)

    def expire(self, *, now_ms: int) -> None:
        """Write and remove what is due; failures are reported."""
        self._services.schedule.expire(now_ms=now_ms)
        self._services.removals.expire(now_ms=now_ms)

    def close(self) -> None:
        """Write everything to the disk, and close the files. Raises: OSError."""
        try:
            for files in self._partitions.values():
                files.close()
            self._write_checkpoints()
        finally:
            self._services.removals.remove_all()
            self._services.open_files.close_all()

    def _delete_delay_ms(self, topic_name: str, path: str) -> int:
        """The delay of a topic on the node whose directory has the path."""
        node_id = self._node_ids.get(path.split("/", maxsplit=1)[0])
        return read_int(self._configs.topic(topic_name, node_id), "file.delete.delay.ms")

    def _stored_log(self, stored: StoredOffsets, key: tuple[str, int]) -> StoredLog:
        return StoredLog(
            log_start=stored.log_starts.get(key, 0),
            high_watermark=stored.high_watermarks.get(key),
            clean_end=stored.recovery_points.get(key) if self._is_clean else None,
            summary=stored.summaries.get(key),
        )

    def _load_options(
        self, stored: StoredOffsets, identity: PartitionIdentity, node_id: int, leader_epoch: int, now_ms: int
    ) -> LoadOptions:
        """node_id: of the leader, or of the only replica."""
        key = (identity.topic, identity.partition_index)
        expiration_ms = read_int(self._configs.broker(node_id), "producer.id.expiration.ms")
        config = self._configs.topic(identity.topic, node_id)
        is_compacted = "compact" in str(config["cleanup.policy"])
        return LoadOptions(
            recovery_point=stored.recovery_points.get(key, 0),
            is_clean=self._is_clean,
            is_complete=self._is_complete,
            index_interval=read_int(config, "index.interval.bytes"),
            repair=self._options.repair,
            report=self._services.report,
            now_ms=now_ms,
            idle_until_ms=now_ms - expiration_ms,
            limits=FieldLimits(
                epoch_max=leader_epoch + _EPOCHS_AHEAD_MAX, has_gaps=is_compacted or key in stored.cleaned_offsets
            ),
        )

    def _measure_log(self, path: str, topic_id: bytes) -> tuple[int, int]:
        """How far the log in a folder reaches: the base offset and size of its last segment, -1 without a log.

        A folder of another topic, that had the same name, is renamed.
        """
        files = self._services.files
        node, name = path.split("/")
        if name not in files.list_names(node):
            return _NO_FOLDER
        metadata_path = f"{path}/{properties.PARTITION_METADATA}"
        data = files.read_file(metadata_path)
        found_id = topic_id if data is None else properties.read_partition_metadata(data, metadata_path)
        if found_id != topic_id and self._had_topic(node, name, topic_id):
            self._mend_topic_id(metadata_path, found_id, topic_id)
        elif found_id != topic_id:
            self._services.report(f"{path}: of another topic; renamed to {self._services.set_aside(path)}")
            return _NO_FOLDER
        parsed = [names.parse_file_name(one) for one in files.list_names(path)]
        last = max((one[0] for one in parsed if one is not None and one[1] == names.LOG), default=-1)
        if last < 0:
            return -1, 0
        log_path = f"{path}/{names.file_name(last, names.LOG)}"
        size = self._services.open_files.find_file(log_path).size
        self._services.open_files.close_file(log_path)
        return last, size

    def _had_topic(self, node: str, name: str, topic_id: bytes) -> bool:
        """Whether a folder was that of a topic when the checkpoints were written."""
        found = names.parse_folder_name(name)
        summary = None if found is None else self._stored[node].summaries.get(found)
        return summary is not None and summary.topic_id == topic_id

    def _mend_topic_id(self, path: str, found_id: bytes, topic_id: bytes) -> None:
        """Raises: DamagedFileError, unless `repair` is set."""
        problem = f"topic id {uuids.to_text(found_id)}, and the log was that of {uuids.to_text(topic_id)}"
        if not self._options.repair:
            raise DamagedFileError(path, None, f"{problem}; --repair gives it this one")
        self._services.files.write_file(path, properties.write_partition_metadata(topic_id))
        self._services.report(f"{path}: {problem}: mended")

    def _forget(self, key: tuple[str, int]) -> None:
        del self._partitions[key]
        for stored in self._stored.values():
            stored.forget_log(key)
        self._services.schedule.mark_changed()

    def _write_checkpoints(self) -> None:
        """Write the offsets of all logs, for each node those that it has a replica of. Raises: OSError."""
        for folder in self._node_folders:
            logs = {key: files for key, files in self._partitions.items() if files.folders.is_in(folder)}
            self._checkpoints.write(folder, logs)
        self._services.clear_failure()

    def _remove_deleted_folders(self) -> None:
        for folder in self._node_folders:
            for name in self._services.files.list_names(folder):
                if name.endswith(DELETED_FOLDER):
                    self._services.files.remove_folder(f"{folder}/{name}")
