"""Logs in a data directory without a cluster: what is in it after a restart, a kill or a crash of the machine."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import msgspec

from mockbroker.config.broker_config import BrokerConfig
from mockbroker.disk_storage.data_directory import DataDirectory, DirectoryOptions
from mockbroker.log_directory.file_layer import FileLayer
from mockbroker.log_directory.simulated_files import FileFault, SimulatedFiles
from mockbroker.state.metadata.configs import Configs
from mockbroker.state.storage.log_config import AppendRules
from mockbroker.state.storage.partition_log import PartitionLog

TOPIC_ID = bytes(range(16))
RULES = AppendRules.from_config(Configs(BrokerConfig()).topic("t"))


class DiskLog:
    """Partition t-0 in files. log: it. lines: what was reported. files: the layer, kept over restarts."""

    def __init__(
        self,
        files: FileLayer,
        *,
        nodes: Sequence[int] = (1,),
        boot_id: str | None = None,
        fsync: bool = False,
        repair: bool = False,
        rules: Callable[[], AppendRules] = lambda: RULES,
        settings: Sequence[str] = (),
        leader_epoch: int = 0,
    ) -> None:
        self.files = files
        self.lines: list[str] = []
        self.nodes = tuple(nodes)
        options = DirectoryOptions(fsync=fsync, repair=repair, report=self.lines.append)
        self.directory = DataDirectory(files, nodes, options, boot_id=boot_id)
        self.logs = self.directory.open_logs(Configs(BrokerConfig.from_properties("", settings)))
        self.partition, state = self.logs.open_log("t", TOPIC_ID, 0, nodes, leader_epoch=leader_epoch, now_ms=0)
        self.wakes = 0
        self.log = PartitionLog(rules, self._wake, storage=self.partition)
        self.log.restore_state(state)
        self.state = state
        self.partition.bind(self.log)
        self.directory.begin_use()

    def _wake(self) -> None:
        self.wakes += 1

    def shut_down(self) -> None:
        """A clean shutdown."""
        self.logs.close()
        self.directory.close(clean=True)


def make_files(
    seed: int = 1,
    *,
    choose_fault: Callable[[str], FileFault | None] = lambda _: None,
    capacity: int | None = None,
) -> SimulatedFiles:
    return SimulatedFiles(random.Random(seed), choose_fault=choose_fault, capacity=capacity)


def make_disk_log(changes: Mapping[str, object]) -> PartitionLog:
    """An empty log in files in memory, with changed append rules."""
    rules = msgspec.structs.replace(RULES, **changes)
    return DiskLog(make_files(), rules=lambda: rules).log
