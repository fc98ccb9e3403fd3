"""Segments, and the logs of a data directory, are read by Kafka's own `kafka-dump-log.sh`, indexes included."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from kwire.records import Codec, ControlType, Record, write_batch, write_marker
from mockbroker.log_directory.disk_files import DiskFiles
from mockbroker.log_directory.formats import names, producer_snapshots
from mockbroker.log_directory.segment_file import SegmentFile
from mockbroker.state.storage import log_cleaner
from mockbroker.state.storage.log_config import CleanerRules
from mockbroker.state.storage.producers import AbortedTransaction, BatchMetadata, ProducerState
from mockbroker.state.storage.segments import RollRules
from tests.clients.java_tools import ToolShell
from tests.support.disk_logs import RULES, DiskLog

pytestmark = [pytest.mark.client, pytest.mark.timeout(180)]

_DUMP = "org.apache.kafka.tools.DumpLogSegments"
_START = 1_700_000_000_000
_ROLL = RollRules(size_max=8_000, age_max_ms=1 << 40, index_interval=500)
_RULES = msgspec.structs.replace(RULES, roll=_ROLL, before_max_ms=1 << 60, after_max_ms=1 << 60)
_CLEANER_RULES = CleanerRules(True, False, -1, -1, 0.1, 0, 1 << 60, 1 << 40, _ROLL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partition with batches of every codec, an aborted transaction, and a snapshot of its producer."""
    root = tmp_path_factory.mktemp("logs")
    files = DiskFiles(root)
    files.create_folder("t-0")
    segment, offset = SegmentFile(files, "t-0", 0, index_interval=4096), 0
    for number in range(40):
        codec = list(Codec)[number % 5]
        records = [
            Record(offset=offset + at, timestamp=_START + offset + at, key=b"k%d" % at, value=b"v" * 500)
            for at in range(5)
        ]
        is_in_transaction = number >= 35
        batch = write_batch(
            records,
            base_offset=offset,
            codec=codec,
            partition_leader_epoch=3,
            producer_id=7 if is_in_transaction else -1,
            producer_epoch=0 if is_in_transaction else -1,
            base_sequence=(number - 35) * 5 if is_in_transaction else -1,
            transactional=is_in_transaction,
        )
        segment.append(batch, last_offset=offset + 4, max_timestamp=_START + offset + 4)
        offset += 5
    marker = write_marker(
        ControlType.ABORT,
        base_offset=offset,
        producer_id=7,
        producer_epoch=0,
        coordinator_epoch=2,
        timestamp=_START + 900,
    )
    segment.append(marker, last_offset=offset, max_timestamp=_START + 900)
    segment.write_indexes([AbortedTransaction(7, 175, offset, offset + 1)])
    segment.file.close()
    state = ProducerState(7, 0, 2, _START + 900)
    state.batches.append(BatchMetadata(20, 24, 195, 199, _START + 199))
    files.write_file(f"t-0/{names.file_name(offset + 1, names.SNAPSHOT)}", producer_snapshots.write_snapshot([state]))
    return root / "t-0"


def test_every_batch_is_valid(tools: ToolShell, folder: Path) -> None:
    text = tools.run(_DUMP, "--files", str(folder / names.file_name(0, names.LOG)), "--deep-iteration")

    batches = re.findall(
        r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .*?compresscodec: (\w+) .*?isvalid: (\w+)", text
    )
    assert len(batches) == 41
    assert {codec for *_, codec, _ in batches} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert {valid for *_, valid in batches} == {"true"}
    assert text.count("| offset: ") == 201
    assert "partitionLeaderEpoch: 3" in text
    assert "invalid" not in text


@pytest.mark.parametrize("suffix", [names.OFFSET_INDEX, names.TIME_INDEX])
def test_indexes_agree_with_the_log(tools: ToolShell, folder: Path, suffix: str) -> None:
    text = tools.run(_DUMP, "--files", str(folder / names.file_name(0, suffix)), "--verify-index-only")

    assert "Mismatches" not in text
    assert "Found" not in text
    assert text.startswith("Dumping ")


def test_aborted_transactions_and_producers_are_read(tools: ToolShell, folder: Path) -> None:
    aborted = tools.run(_DUMP, "--files", str(folder / names.file_name(0, names.TRANSACTION_INDEX)))
    producers = tools.run(_DUMP, "--files", str(folder / names.file_name(201, names.SNAPSHOT)))

    assert "version: 0 producerId: 7 firstOffset: 175 lastOffset: 200 lastStableOffset: 201" in aborted
    assert re.search(
        r"producerId: 7 producerEpoch: 0 coordinatorEpoch: 2 .*firstSequence: 20 lastSequence: 24", producers
    )


@pytest.fixture(scope="module")
def log_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The partition of a data directory: every codec, aborted transactions, and compacted first segments."""
    root = tmp_path_factory.mktemp("data")
    disk = DiskLog(DiskFiles(root), rules=lambda: _RULES, settings=("log.index.interval.bytes=500",))
    log, sequence = disk.log, 0
    log.start_leader_epoch(3)
    for number in range(90):
        is_in_transaction = number % 10 >= 7
        records = [Record(at, _START + number, b"k%d" % (number % 7), b"%d" % number * 150) for at in range(3)]
        given = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence} if is_in_transaction else {}
        sequence += 3 if is_in_transaction else 0
        codec = list(Codec)[number % 5]
        data = write_batch(records, codec=codec, transactional=is_in_transaction, **given)  # type: ignore[arg-type]
        log.append(data, now_ms=_START + number)
        if number % 10 == 9:
            log.append_marker(
                commit=number % 20 == 9,
                producer_id=7,
                producer_epoch=0,
                coordinator_epoch=2,
                now_ms=_START + number,
            )
        if number == 60:
            cleanable = log_cleaner.find_cleanable_range(log, _CLEANER_RULES, now_ms=_START + number)
            assert cleanable is not None
            log_cleaner.compact_log(log, cleanable, _CLEANER_RULES, now_ms=_START + number)
    disk.shut_down()
    return root / "node-1" / "t-0"


def test_every_batch_of_a_log_is_valid(tools: ToolShell, log_folder: Path) -> None:
    logs = sorted(log_folder.glob("*.log"))
    text = tools.run(_DUMP, "--files", ",".join(map(str, logs)), "--deep-iteration")

    batches = re.findall(r"baseOffset: (\d+) lastOffset: (\d+) .*?compresscodec: (\w+) .*?isvalid: (\w+)", text)
    assert len(logs) > 3
    assert {valid for *_, valid in batches} == {"true"}
    assert {codec for *_, codec, _ in batches} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert int(batches[-1][1]) == 90 * 3 + 9 - 1
    assert len(batches) < 99
    assert "partitionLeaderEpoch: 3" in text


def test_indexes_of_a_log_agree_with_it(tools: ToolShell, log_folder: Path) -> None:
    indexes = [str(path) for path in sorted([*log_folder.glob("*.index"), *log_folder.glob("*.timeindex")])]
    text = tools.run(_DUMP, "--files", ",".join(indexes), "--index-sanity-check")
    verified = tools.run(_DUMP, "--files", ",".join(indexes), "--verify-index-only")

    empty = [path for path in indexes if not Path(path).stat().st_size]
    assert text.count("passed sanity check") == len(indexes) - len(empty)
    assert text.count("is empty") == len(empty)
    assert "Mismatches" not in verified
    assert "Found" not in verified


def test_aborted_transactions_and_producers_of_a_log_are_read(tools: ToolShell, log_folder: Path) -> None:
    transactions = tools.run(_DUMP, "--files", ",".join(str(path) for path in sorted(log_folder.glob("*.txnindex"))))
    newest = max(log_folder.glob("*.snapshot"))
    producers = tools.run(_DUMP, "--files", str(newest))

    assert "producerId: 7" in transactions
    assert newest.name == f"{90 * 3 + 9:020d}.snapshot"
    assert re.search(r"producerId: 7 producerEpoch: 0 coordinatorEpoch: 2 ", producers)
