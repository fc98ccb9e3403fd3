"""Fields of batches that no checksum covers are checked before they are used; a refusal names file and position."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import pytest

from kwire.records import Record, write_batch
from mockbroker.config.keys import ConfigError
from mockbroker.log_directory.formats.damage import DamagedFileError
from mockbroker.log_directory.simulated_files import SimulatedFiles
from tests.support.disk_logs import DiskLog, make_files
from tests.support.stored.stored_broker import LOG as METADATA_LOG
from tests.support.stored.stored_broker import StoredBroker

_LOG = "node-1/t-0/00000000000000000000.log"
_BATCHES = 4


def _make_log(*, is_clean: bool) -> tuple[SimulatedFiles, list[int]]:
    """A log of some batches that was closed or whose process was killed, and the positions of its batches."""
    files = make_files()
    disk = DiskLog(files, boot_id="boot")
    positions = []
    for number in range(_BATCHES):
        positions.append(len(files.contents_of(_LOG)) if number else 0)
        disk.log.append(write_batch([Record(0, 1_000, None, b"%d" % number)]), now_ms=1_000)
    if is_clean:
        disk.shut_down()
    return files, positions


def _set(layout: str, at: int, value: int) -> Callable[[bytearray, int], None]:
    return lambda data, position: struct.pack_into(layout, data, position + at, value)


_CHANGES = {
    "base offset": _set(">q", 0, 1 << 40),
    "base offset before": _set(">q", 0, 0),
    "base offset behind": _set(">q", 0, 7),
    "length": _set(">i", 8, 5_000),
    "short length": _set(">i", 8, 60),
    "negative length": _set(">i", 8, -5),
    "leader epoch": _set(">i", 12, 1 << 30),
    "negative leader epoch": _set(">i", 12, -7),
    "magic": _set(">b", 16, 6),
    "old magic": _set(">b", 16, 1),
}


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("change", _CHANGES)
def test_a_wrong_field_of_the_last_batch_is_refused_with_its_position_and_cut_to_repair(
    change: str, is_clean: bool
) -> None:
    files, positions = _make_log(is_clean=is_clean)
    _CHANGES[change](files.contents_of(_LOG), positions[-1])
    with pytest.raises(DamagedFileError, match=rf"{_LOG}, byte {positions[-1]}: ") as refused:
        DiskLog(files, boot_id="boot")
    with pytest.raises(DamagedFileError) as again:
        DiskLog(files, boot_id="boot")
    repaired = DiskLog(files, boot_id="boot", repair=True)

    assert str(again.value) == str(refused.value)
    assert repaired.log.end_offset == _BATCHES - 1
    assert any("cut" in line for line in repaired.lines)


def test_a_batch_of_the_log_that_is_only_half_written_is_cut_off() -> None:
    files, positions = _make_log(is_clean=False)
    del files.contents_of(_LOG)[positions[-1] + 65 :]

    # It was not acknowledged: the high watermark of the checkpoint is below it.
    assert DiskLog(files, boot_id="boot").log.end_offset == _BATCHES - 1


def test_a_closed_log_that_has_lost_its_end_is_refused() -> None:
    files, positions = _make_log(is_clean=True)
    del files.contents_of(_LOG)[positions[-1] :]

    with pytest.raises(DamagedFileError, match=r"the log ends at offset 3, and ended at 4 when it was closed"):
        DiskLog(files)
    assert DiskLog(files, repair=True).log.end_offset == _BATCHES - 1


@pytest.mark.parametrize("epoch", [2_000_000_000, 7_000, -1])
def test_an_epoch_of_the_checkpoint_that_cannot_be_is_built_again_from_the_log(epoch: int) -> None:
    files, _ = _make_log(is_clean=True)
    path = "node-1/t-0/leader-epoch-checkpoint"
    files.write_file(path, b"0\n1\n%d 0\n" % epoch)
    disk = DiskLog(files)

    is_refused = epoch != 7_000  # So many elections may have been lost by a crash of the machine.
    assert (disk.log.leader_epoch == 0) is is_refused
    assert any("built again" in line for line in disk.lines) is is_refused


def _stored(files: SimulatedFiles, **options: object) -> StoredBroker:
    return StoredBroker(files, topics={"t": 1}, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("change", [name for name in _CHANGES if "before" not in name])
def test_a_wrong_field_of_the_metadata_log_is_refused_with_its_position(change: str) -> None:
    files = SimulatedFiles(random.Random(1))
    _stored(files).end()
    data = files.contents_of(METADATA_LOG)
    positions, at = [], 0
    while at < len(data):
        positions.append(at)
        at += 12 + int.from_bytes(data[at + 8 : at + 12])
    _CHANGES[change](data, positions[-1])

    with pytest.raises(DamagedFileError, match=rf"{METADATA_LOG}, byte {positions[-1]}: "):
        _stored(files)


def test_a_topic_log_with_an_epoch_far_beyond_the_metadata_does_not_start() -> None:
    files = SimulatedFiles(random.Random(1))
    broker = _stored(files)
    broker.leader_log("t").append(write_batch([Record(0, 1_000, None, b"v")]), now_ms=1_000_000)
    path = "node-0/t-0/00000000000000000000.log"
    struct.pack_into(">i", files.contents_of(path), 12, 1 << 29)

    with pytest.raises(ConfigError, match=rf"{path}, byte 0: a batch of leader epoch {1 << 29}; expected 0 to "):
        _stored(files)


def test_a_metadata_log_that_has_lost_its_end_is_refused() -> None:
    files = SimulatedFiles(random.Random(1))
    broker = _stored(files)
    size = len(files.contents_of(METADATA_LOG))
    broker.core.create_topic("late", 1)
    broker.core.requests.write_metadata()
    broker.end()
    del files.contents_of(METADATA_LOG)[size:]

    with pytest.raises(DamagedFileError, match=r"the log ends at offset \d+, and ended at"):
        _stored(files)
    files.remove(METADATA_LOG)
    with pytest.raises(DamagedFileError, match=r"no log is there|ended at"):
        _stored(files)
