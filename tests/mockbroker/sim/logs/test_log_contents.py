"""What the simulator reads of logs that are compacted, each replica's on its own."""

from __future__ import annotations

from msgspec.structs import replace

from kwire.records import Record, write_batch
from mockbroker.config.broker_config import BrokerConfig
from mockbroker.sim.logs.log_contents import LogContentsReader
from mockbroker.state.metadata.configs import Configs
from mockbroker.state.storage import log_cleaner
from mockbroker.state.storage.log_config import AppendRules, CleanerRules
from mockbroker.state.storage.partition_log import PartitionLog
from mockbroker.state.storage.segments import RollRules

_ROLL = RollRules(size_max=1_000_000, age_max_ms=1_000)
_DEFAULTS = Configs(BrokerConfig()).topic("t")
_APPENDS = replace(AppendRules.from_config(_DEFAULTS), roll=_ROLL)
_COMPACTS = replace(
    CleanerRules.from_config(_DEFAULTS),
    compacts=True,
    deletes=False,
    retention_ms=-1,
    roll=_ROLL,
    dirty_ratio_min=0.0,
    tombstones_ms=0,
)
_PARTITION = (bytes(16), 0)


def _replica() -> PartitionLog:
    """A log with a value and a tombstone of one key, and a record in the next segment."""
    log = PartitionLog(lambda: _APPENDS)
    for timestamp, value in ((0, b"v"), (0, None), (2_000, b"v")):
        log.append(write_batch([Record(0, timestamp, b"k", value)]), now_ms=timestamp)
    return log


def _compact(log: PartitionLog) -> None:
    cleanable = log_cleaner.find_cleanable_range(log, _COMPACTS, now_ms=9_000)
    assert cleanable is not None
    log_cleaner.compact_log(log, cleanable, _COMPACTS, now_ms=9_000)


def test_records_that_a_former_leader_has_compacted_stay_lost_where_the_next_one_has_them() -> None:
    """Each replica compacts its own log: what a former leader did not have was never delivered (KIP-932, archived)."""
    leader, follower = _replica(), _replica()
    logs = [leader]
    reader = LogContentsReader(lambda key: logs[0])
    assert reader.read_contents(_PARTITION).present == {0, 1, 2}
    _compact(leader)
    assert reader.read_contents(_PARTITION).present == {1, 2}
    logs[0] = follower

    contents = reader.read_contents(_PARTITION)
    assert (contents.present, contents.lost) == ({1, 2}, {0})


def test_the_records_of_a_log_that_another_process_has_opened_are_read_again() -> None:
    compacted, before = _replica(), _replica()
    logs = [compacted]
    reader = LogContentsReader(lambda key: logs[0])
    _compact(compacted)
    assert reader.read_contents(_PARTITION).lost == {0}
    logs[0] = before
    reader.forget_versions()

    assert reader.read_contents(_PARTITION).present == {0, 1, 2}
