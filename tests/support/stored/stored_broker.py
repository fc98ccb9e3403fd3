"""`StoredBroker`: a `Broker` with a data directory on simulated files, which can end, be killed, and start again."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path

from mockbroker.config.releases import DEFAULT_RELEASE
from mockbroker.disk_storage.data_directory import DataDirectory, DirectoryOptions
from mockbroker.log_directory.simulated_files import FileFault, SimulatedFiles
from mockbroker.metadata_log.image import MetadataImage
from mockbroker.metadata_log.stored_cluster import StoredCluster
from tests.support.brokers.broker import Broker

FOLDER = "node-0/__cluster_metadata-0"
LOG = f"{FOLDER}/00000000000000000000.log"


class StoredBroker(Broker):
    """A cluster whose data directory is simulated. faults: of the files; lines: what was mended at the start."""

    def __init__(
        self,
        files: SimulatedFiles,
        *,
        nodes: int = 1,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, str] | None = None,
        features: tuple[str, ...] = (),
        release: str = DEFAULT_RELEASE,
        now_ms: int = 1_000_000,
        repair: bool = False,
        fsync: bool = False,
        snapshot_after: int = 1 << 20,
    ) -> None:
        self.files = files
        self.lines: list[str] = []
        options = DirectoryOptions(fsync=fsync, repair=repair, report=self.lines.append)
        directory = DataDirectory(files, range(nodes), options)
        self.stored = StoredCluster(directory, Path("data"), snapshot_after=snapshot_after)
        super().__init__(
            nodes=nodes,
            topics=topics,
            config=config,
            features=features,
            release=release,
            now_ms=now_ms,
            stored=self.stored,
        )
        self.core.requests.write_metadata()

    @property
    def image(self) -> MetadataImage:
        """What the metadata log leads to."""
        return self.stored.log.image

    def end(self) -> None:
        """End cleanly."""
        assert self.core.state.log_store is not None
        self.stored.close(self.core.state.log_store.close)


class FailingFiles(SimulatedFiles):
    """Files in memory whose writes fail while `fault` is set, for the paths that `is_affected` selects."""

    def __init__(self, is_affected: Callable[[str], bool] = lambda path: "__cluster_metadata" in path) -> None:
        self.fault: FileFault | None = None
        super().__init__(random.Random(1), choose_fault=lambda path: self.fault if is_affected(path) else None)
