"""Segments that `mockbroker.log_directory` writes are read by Kafka's own `kafka-dump-log.sh`, indexes included."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kwire.records import Codec, ControlType, Record, write_batch, write_marker
from mockbroker.log_directory.disk_files import DiskFiles
from mockbroker.log_directory.formats import names, producer_snapshots
from mockbroker.log_directory.segment_file import SegmentFile
from mockbroker.state.storage.producers import AbortedTransaction, BatchMetadata, ProducerState
from tests.clients.java_tools import ToolShell

pytestmark = [pytest.mark.client, pytest.mark.timeout(180)]

_DUMP = "org.apache.kafka.tools.DumpLogSegments"
_START = 1_700_000_000_000


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
