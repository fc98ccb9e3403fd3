"""Segments on a disk that fails: what was appended is there after a crash, and a failed append leaves nothing."""

from __future__ import annotations

import contextlib
import random

import pytest

from kwire.records import Record, write_batch
from mockbroker.log_directory.formats.damage import DamagedFileError
from mockbroker.log_directory.recovery import RecoveryOptions, load_partition
from mockbroker.log_directory.segment_file import SegmentFile
from mockbroker.log_directory.simulated_files import FileFault, SimulatedFiles
from tests.support.cases import check_cases

_SEEDS = range(150)


class _Writer:
    """Appends batches of random sizes to segments of folder t-0, and syncs now and then.

    acknowledged: the value of each offset that was appended. synced: offsets below were on the disk once.
    """

    def __init__(self, files: SimulatedFiles, rng: random.Random) -> None:
        self.files = files
        self.acknowledged: list[bytes] = []
        self.synced = 0
        self._rng = rng
        files.create_folder("t-0")
        self._segment = SegmentFile(files, "t-0", 0, index_interval=200)

    def run(self, steps: int) -> int:
        """Returns: the number of failed calls."""
        failures = 0
        for _ in range(steps):
            try:
                self._run_step()
            except OSError:
                failures += 1
        return failures

    def _run_step(self) -> None:
        step = self._rng.random()
        if step < 0.15:
            self._segment.file.sync()
            self.synced = len(self.acknowledged)
        elif step < 0.22 and self._segment.size:
            self._segment.file.sync()
            self.synced = len(self.acknowledged)
            self._segment = SegmentFile(self.files, "t-0", len(self.acknowledged), index_interval=200)
            self._segment.file.sync()
        else:
            offset = len(self.acknowledged)
            value = self._rng.randbytes(self._rng.randrange(300))
            record = Record(offset=offset, timestamp=1_000 + offset, key=None, value=value)
            batch = write_batch([record], base_offset=offset)
            self._segment.append(batch, last_offset=offset, max_timestamp=1_000 + offset)
            self.acknowledged.append(value)


def _read_values(files: SimulatedFiles, recovery_point: int) -> list[bytes | None]:
    options = RecoveryOptions(recovery_point, 200, repair=False, report=lambda _: None)
    loaded = load_partition(files, "t-0", options)
    return [record.value for one in loaded.segments for batch in one.batches for record in batch.records()]


def test_after_a_killed_process_everything_that_was_acknowledged_is_there() -> None:
    def check(seed: int) -> None:
        rng = random.Random(seed)
        faults = (FileFault.WRITE_FAILS, FileFault.SHORT_WRITE, FileFault.SYNC_FAILS)
        share = 0.0
        files = SimulatedFiles(rng, choose_fault=lambda _: rng.choice(faults) if rng.random() < share else None)
        writer = _Writer(files, rng)
        share = 0.1

        failures = writer.run(150)

        assert failures
        assert _read_values(files, 0) == writer.acknowledged

    check_cases(_SEEDS, check)


def test_after_a_crash_of_the_machine_everything_that_was_synced_is_there() -> None:
    def check(seed: int) -> None:
        rng = random.Random(seed)
        writer = _Writer(SimulatedFiles(rng), rng)
        writer.run(60)

        left = writer.files.crash_machine()
        values = _read_values(left, writer.synced)

        assert len(values) >= writer.synced
        assert values == writer.acknowledged[: len(values)]
        assert _read_values(left, 0) == values

    check_cases(_SEEDS, check)


def test_a_bit_that_flips_is_found_or_is_in_bytes_that_no_checksum_covers() -> None:
    def check(seed: int) -> None:
        rng = random.Random(seed)
        is_flipping = False
        files = SimulatedFiles(
            rng, choose_fault=lambda path: FileFault.BIT_FLIPS if is_flipping and "log" in path else None
        )
        writer = _Writer(files, rng)
        writer.run(40)
        is_flipping = True
        options = RecoveryOptions(0, 200, repair=False, report=lambda _: None)

        with contextlib.suppress(DamagedFileError):
            loaded = load_partition(files, "t-0", options)
            is_flipping = False
            # The end was cut, or the bit was in the offset or the leader epoch of a batch.
            values = [record.value for one in loaded.segments for batch in one.batches for record in batch.records()]
            assert values == writer.acknowledged[: len(values)]

    check_cases(_SEEDS, check)


def test_a_full_disk_refuses_and_goes_on_when_there_is_space() -> None:
    rng = random.Random(1)
    files = SimulatedFiles(rng, capacity=2_000)
    writer = _Writer(files, rng)
    while not writer.run(1):
        pass
    count = len(writer.acknowledged)
    assert files.used <= 2_000
    files.capacity = None

    assert writer.run(50) == 0

    assert len(writer.acknowledged) > count
    assert _read_values(files, 0) == writer.acknowledged


@pytest.mark.parametrize("is_cut", [False, True])
def test_after_a_failed_sync_only_a_file_that_was_cut_can_be_synced(is_cut: bool) -> None:
    """Linux counts the pages of a failed sync as written; for what was cut away that does not matter any more."""
    conditions: list[FileFault] = []
    files = SimulatedFiles(random.Random(1), choose_fault=lambda _: conditions[0] if conditions else None)
    file = files.open_file("log")
    file.append(b"first")
    file.sync()
    file.append(b"second")
    conditions.append(FileFault.SYNC_FAILS)
    with pytest.raises(OSError, match="simulated failure of fsync"):
        file.sync()
    conditions.clear()
    if is_cut:
        file.truncate(len(b"first"))
    file.append(b"third")
    file.sync()

    outcomes = {files.crash_machine().read_file("log") for _ in range(30)}
    assert (outcomes == {b"firstthird"}) is is_cut
    assert (len(outcomes) == 1) is is_cut


def test_after_a_failed_sync_an_empty_file_can_be_synced() -> None:
    """It has no page that was counted as written, and its name is there after the next sync."""
    conditions = [FileFault.SYNC_FAILS]
    files = SimulatedFiles(random.Random(1), choose_fault=lambda _: conditions[0] if conditions else None)
    file = files.open_file("log")
    with pytest.raises(OSError, match="simulated failure of fsync"):
        file.sync()
    conditions.clear()
    file.sync()

    assert files.crash_machine().read_file("log") == b""
