"""The memory of all logs: what counts, what frees it, and who is refused when it is full."""

from __future__ import annotations

import msgspec
import pytest

from kwire.error_codes import ErrorCode
from kwire.records import Record, write_batch
from mockbroker.config.broker_config import BrokerConfig
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.configs import Configs
from mockbroker.state.storage.log_cleaner import delete_old_segments
from mockbroker.state.storage.log_config import AppendRules, CleanerRules
from mockbroker.state.storage.memory_budget import BATCH_COST, MemoryBudget
from mockbroker.state.storage.partition_log import AppendOrigin, PartitionLog

_CONFIG = Configs(BrokerConfig()).topic("t")
_RULES = AppendRules.from_config(_CONFIG)
_SEGMENTED = msgspec.structs.replace(_RULES, roll=msgspec.structs.replace(_RULES.roll, size_max=200))
_NOW = 1_700_000_000_000
_BATCH = write_batch([Record(offset=0, timestamp=_NOW, key=None, value=b"v" * 100)])
_COST = len(_BATCH) + BATCH_COST


def _log(budget: MemoryBudget) -> PartitionLog:
    return PartitionLog(lambda: _SEGMENTED, budget=budget)


def _append(log: PartitionLog, count: int = 1, origin: AppendOrigin = AppendOrigin.CLIENT) -> None:
    for _ in range(count):
        log.append(_BATCH, now_ms=_NOW, origin=origin)


def test_a_batch_that_does_not_fit_is_refused_and_changes_nothing() -> None:
    lines: list[tuple[int, int]] = []
    log = _log(MemoryBudget(3 * _COST, lambda used, limit: lines.append((used, limit))))
    _append(log, 3)

    for _ in range(5):
        with pytest.raises(KafkaError) as caught:
            _append(log)
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR

    assert caught.value.message == f"the logs take {3 * _COST:,} bytes, and may take {3 * _COST:,} (--memory-limit)"
    assert (log.end_offset, lines) == (3, [(3 * _COST, 3 * _COST)])


def test_the_broker_itself_is_never_refused() -> None:
    budget = MemoryBudget(_COST)
    log = _log(budget)

    _append(log, 3, AppendOrigin.COORDINATOR)
    log.append_marker(commit=True, producer_id=-1, producer_epoch=0, coordinator_epoch=0, now_ms=_NOW)

    assert budget.used > 4 * BATCH_COST


def test_all_logs_count_together_and_retention_frees_memory() -> None:
    lines: list[tuple[int, int]] = []
    budget = MemoryBudget(6 * _COST, lambda used, limit: lines.append((used, limit)))
    first, second = _log(budget), _log(budget)
    _append(first, 4)
    _append(second, 2)
    with pytest.raises(KafkaError):
        _append(second)

    rules = CleanerRules.from_config(_CONFIG)
    delete_old_segments(first, msgspec.structs.replace(rules, retention_ms=1), now_ms=_NOW + 10)

    assert budget.used == 2 * _COST
    _append(second, 4)
    with pytest.raises(KafkaError):
        _append(second)
    assert len(lines) == 2


def test_truncation_and_deletion_of_a_log_free_memory() -> None:
    budget = MemoryBudget()
    log = _log(budget)
    _append(log, 5)

    removed = log.truncate_to(2)
    assert budget.used == 2 * _COST
    log.restore_batches(removed)
    assert budget.used == 5 * _COST
    log.storage.remove()
    assert budget.used == 0


def test_without_a_limit_nothing_is_refused() -> None:
    budget = MemoryBudget()
    _append(_log(budget), 10)

    assert budget.used == 10 * _COST
