"""`StoredCluster`: the data directory of a cluster: what it has of an earlier process, its use, and its end."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.errors import WireError
from kwire.records.metadata.feature_level_record import FeatureLevelRecord
from kwire.records.metadata.register_broker_record import RegisterBrokerRecord
from kwire.records.metadata.topic_record import TopicRecord
from mockbroker.config.keys import ConfigError
from mockbroker.disk_storage.data_directory import DataDirectory, DirectoryOptions
from mockbroker.kafka_error import KafkaError
from mockbroker.log.subjects import STORAGE
from mockbroker.log_directory.directory_lock import DirectoryInUseError
from mockbroker.log_directory.formats.damage import DamagedFileError
from mockbroker.log_directory.formats.names import LOG, parse_folder_name
from mockbroker.log_directory.formats.properties import META_PROPERTIES
from mockbroker.metadata_log.metadata_log import FOLDER, SNAPSHOT_AFTER_BYTES, MetadataLog
from mockbroker.metadata_log.recorder import MetadataRecorder
from mockbroker.metadata_log.restoration import elect_leaders, restore_cluster
from mockbroker.metadata_log.snapshots import SNAPSHOT_SUFFIX
from mockbroker.metadata_log.tables import MetadataLogError
from mockbroker.state.metadata.feature_levels import KRAFT_VERSION

if TYPE_CHECKING:
    from mockbroker.broker.cluster_state import ClusterState

_NODE_FOLDER = re.compile(r"node-(\d{1,10})")


class StoredCluster:
    """A data directory that is open. path: of the directory. is_new: nothing is stored in it yet."""

    def __init__(self, directory: DataDirectory, path: Path, *, snapshot_after: int = SNAPSHOT_AFTER_BYTES) -> None:
        """Read the metadata log. Raises: ConfigError, DamagedFileError, MetadataLogError, OSError."""
        self.directory = directory
        self.path = path
        self._quorum_node = min(directory.node_ids)
        options = directory.options
        self.log = MetadataLog(
            directory.files,
            directory.node_folder(self._quorum_node),
            fsync=options.fsync,
            repair=options.repair,
            checks_end=directory.was_closed_here,
            snapshot_after=snapshot_after,
            report=options.report,
        )
        self.is_new = self.log.is_new
        self._recorder: MetadataRecorder | None = None
        if self.is_new:
            self._check_has_no_partitions()
        self._check_identities()
        self._check_nodes()

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        first_node: int,
        node_count: int,
        options: DirectoryOptions,
        snapshot_after: int = SNAPSHOT_AFTER_BYTES,
    ) -> StoredCluster:
        """Open a data directory for this process alone; it is created if it does not exist.

        Raises: ConfigError that names the directory and what to do.
        """
        _check_path(path)
        try:
            directory = DataDirectory.open(path, range(first_node, first_node + node_count), options)
            try:
                return cls(directory, path, snapshot_after=snapshot_after)
            except BaseException:
                directory.close(clean=False)
                raise
        except DirectoryInUseError as error:
            raise ConfigError(f"data-dir: {error}") from error
        except (DamagedFileError, MetadataLogError, OSError) as error:
            raise ConfigError(_describe_error(error, path, repair=options.repair)) from error

    def choose_levels(self, given: Mapping[str, int], supported: Mapping[str, tuple[int, int]]) -> dict[str, int]:
        """The feature levels of the cluster: the stored ones, or those of a new cluster.

        given: of a new cluster. supported: the lowest and the highest level of this release.
        Raises: ConfigError for a level that this release does not support.
        """
        if self.is_new:
            return dict(given)
        levels = {row.name: row.feature_level for row in self.log.image.tables[FeatureLevelRecord].values()}
        if self.log.kraft_version:
            levels[KRAFT_VERSION] = self.log.kraft_version
        for name, level in levels.items():
            low, high = supported.get(name, (0, 0))
            if not low <= level <= high:
                problem = f"it has {name} {level}; this release supports {low} to {high}"
                raise ConfigError(f"data-dir: the cluster was stored by another release: {problem}")
        return {name: levels[name] for name in supported if name in levels}

    def initialize(self, rng: random.Random, cluster_id: str) -> str:
        """Write the identity of new nodes. Returns: the id of the cluster, which is the stored one if there is one.

        rng: of the cluster; with the same seed it makes other ids after every start. Raises: ConfigError.
        """
        stored = self.directory.cluster_id
        if not self.is_new:
            rng.seed(rng.getrandbits(64) + self.log.epoch)
        try:
            self.directory.initialize(cluster_id if stored is None else stored, rng)
        except OSError as error:
            raise ConfigError(_describe_error(error, self.path, repair=False)) from error
        return cluster_id if stored is None else stored

    def restore(self, state: ClusterState, *, now_ms: int) -> None:
        """Put what is stored into a new cluster, whose brokers have all been started. Raises: ConfigError."""
        folder = self.directory.node_folder
        paths = {node_id: str(self.path.absolute() / folder(node_id)) for node_id in self.directory.node_ids}
        state.broker_storage.set_directories(self.directory.directory_ids, paths)
        assert state.controller is not None
        assert state.log_store is not None
        with self.translate_errors():
            if not self.is_new:
                restore_cluster(self.log.image, state)
                elect_leaders(state)
            state.log_store.load_logs(now_ms=now_ms)
        state.controller.apply_leader_changes(now_ms=now_ms)

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Turn errors of the files into ConfigError that names the directory, and what to do."""
        try:
            yield
        except (MetadataLogError, DamagedFileError, KafkaError, WireError, OSError) as error:
            raise ConfigError(_describe_error(error, self.path, repair=self.directory.options.repair)) from error

    @property
    def topic_ids(self) -> frozenset[bytes]:
        """The ids of the topics that are stored."""
        return frozenset(self.log.image.tables[TopicRecord])

    def record(self, state: ClusterState, clock: Callable[[], int]) -> MetadataRecorder:
        """Begin to write the changes of a cluster; the first ones are the registrations of its brokers.

        Raises: OSError.
        """
        self.directory.begin_use()
        self._recorder = MetadataRecorder(
            state, self.log, directory_ids=self.directory.directory_ids, quorum_node=self._quorum_node, clock=clock
        )
        assert state.log_store is not None
        state.log_store.await_metadata(self._recorder.write_changes)
        return self._recorder

    def close(self, close_logs: Callable[[], None] | None = None) -> None:
        """Write what is left, and release the directory.

        close_logs: closes the logs of topics, None for a cluster that has not been started: that is no clean end.
        What cannot be written is logged; the next start then reads the logs as after a crash.
        """
        is_clean = False
        try:
            if close_logs is not None:
                close_logs()
                if self._recorder is not None:
                    self._recorder.close()
                    is_clean = True
        except (OSError, KafkaError) as error:
            STORAGE.warning("the data directory was not closed cleanly: %(error)s", error=str(error))
        finally:
            self._release(is_clean=is_clean)

    def _release(self, *, is_clean: bool) -> None:
        epochs = self._recorder.broker_epochs() if self._recorder is not None else {}
        self.log.close()
        try:
            self.directory.close(clean=is_clean, broker_epochs=epochs)
        except OSError as error:
            STORAGE.warning("the data directory was not closed cleanly: %(error)s", error=str(error))

    def _check_has_no_partitions(self) -> None:
        """Raises: ConfigError where there are logs of topics, and no metadata log."""
        for node_id in self.directory.node_ids:
            folder = self.directory.node_folder(node_id)
            names = [name for name in self.directory.files.list_names(folder) if name != FOLDER]
            if any(parse_folder_name(name) for name in names):
                path = self.path / folder
                raise ConfigError(f"data-dir: {path} has logs of topics, and the metadata log {FOLDER} is missing")

    def _check_identities(self) -> None:
        """Raises: DamagedFileError for a node that has logs and no identity, which would get another one."""
        directory = self.directory
        for node_id in directory.node_ids:
            if node_id in directory.directory_ids or directory.options.repair:
                continue
            folder = directory.node_folder(node_id)
            others = (name for name in directory.files.list_names(folder) if name != FOLDER)
            if (node_id == self._quorum_node and not self.is_new) or any(map(parse_folder_name, others)):
                raise DamagedFileError(f"{folder}/{META_PROPERTIES}", None, "missing, and there are logs")

    def _check_nodes(self) -> None:
        """Raises: ConfigError for stored brokers that this cluster would not have."""
        stored = sorted(self.log.image.tables[RegisterBrokerRecord])
        missing = [node_id for node_id in stored if node_id not in self.directory.node_ids]
        if missing:
            nodes = list(self.directory.node_ids)
            raise ConfigError(f"data-dir: it has the nodes {stored}, and this cluster only {nodes}: give more --nodes")


def stored_node_count(path: Path, first_node: int) -> int | None:
    """The number of nodes from the first one on that a data directory has, None for a new one.

    Raises: ConfigError for a directory whose nodes have other ids.
    """
    if not path.is_dir():
        return None
    found = sorted(int(match[1]) for name in path.iterdir() if (match := _NODE_FOLDER.fullmatch(name.name)))
    if not found:
        return None
    if found[0] != first_node:
        raise ConfigError(f"data-dir: {path} has the nodes {found}, and this cluster begins with node.id {first_node}")
    return found[-1] - first_node + 1


def _describe_error(error: Exception, path: Path, *, repair: bool) -> str:
    """A line for the user. An error of the system names its file."""
    if isinstance(error, OSError):
        return f"data-dir: {error}"
    text = str(error.message if isinstance(error, KafkaError) else error).replace("\n", " ")
    is_log = isinstance(error, DamagedFileError) and error.name.endswith((LOG, SNAPSHOT_SUFFIX))
    hint = "; --repair cuts damaged logs" if is_log and not repair and "--repair" not in text else ""
    return f"data-dir: {path}: {text}{hint}"


def _check_path(path: Path) -> None:
    """Raises: ConfigError for a path that cannot be a data directory."""
    if path.exists() and not path.is_dir():
        raise ConfigError(f"data-dir: {path} is not a directory")
    if (path / META_PROPERTIES).exists():
        hint = "the directories of the nodes are in it, as node-0"
        raise ConfigError(f"data-dir: {path} is the log directory of one broker; {hint}")
