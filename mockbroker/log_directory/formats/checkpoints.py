"""Checkpoint files: offsets of partitions, and leader epochs with their start offsets.

Text: a line with the version, one with the number of entries, then a line for each entry. Source: Kafka's
CheckpointFile, OffsetCheckpointFile and LeaderEpochCheckpointFile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mockbroker.log_directory.formats.damage import DamagedFileError

#: Names of the files of a directory that hold offsets by partition.
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANED_OFFSETS = "cleaner-offset-checkpoint"
#: The file of a partition that holds its leader epochs.
LEADER_EPOCHS = "leader-epoch-checkpoint"

_VERSION = 0


def write_offsets(offsets: Mapping[tuple[str, int], int]) -> bytes:
    """The file of an offset for each topic and partition."""
    return _write_lines([f"{topic} {index} {offset}" for (topic, index), offset in offsets.items()])


def read_offsets(data: bytes, name: str) -> dict[tuple[str, int], int]:
    """An offset for each topic and partition. Raises: DamagedFileError."""
    offsets = {}
    for number, (topic, index, offset) in _read_lines(data, name, 3):
        read = _read_number(index, name, number), _read_number(offset, name, number)
        if min(read) < 0:
            raise DamagedFileError(name, None, f"line {number}: partition {read[0]}, offset {read[1]}")
        offsets[topic, read[0]] = read[1]
    return offsets


def write_leader_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    """The file of leader epochs with their start offsets, in order."""
    return _write_lines([f"{epoch} {offset}" for epoch, offset in entries])


def read_leader_epochs(data: bytes, name: str) -> list[tuple[int, int]]:
    """Leader epochs with their start offsets. Raises: DamagedFileError, also where epochs or offsets decrease."""
    entries: list[tuple[int, int]] = []
    for number, (epoch, offset) in _read_lines(data, name, 2):
        entry = _read_number(epoch, name, number), _read_number(offset, name, number)
        if min(entry) < 0:
            raise DamagedFileError(name, None, f"line {number}: epoch {entry[0]} at offset {entry[1]}")
        if entries and (entry[0] <= entries[-1][0] or entry[1] < entries[-1][1]):
            raise DamagedFileError(name, None, f"line {number}: epoch {entry[0]} at {entry[1]} after {entries[-1]}")
        entries.append(entry)
    return entries


def _write_lines(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in (str(_VERSION), str(len(lines)), *lines)).encode()


def _read_lines(data: bytes, name: str, width: int) -> list[tuple[int, list[str]]]:
    """The fields of each entry with the number of its line, which counts from 1."""
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError as error:
        raise DamagedFileError(name, error.start, "not text in UTF-8") from error
    if len(lines) < 2:
        raise DamagedFileError(name, None, f"{len(lines)} lines; expected a version and a number of entries")
    version, count = (_read_number(line, name, number) for number, line in enumerate(lines[:2], 1))
    if version != _VERSION:
        raise DamagedFileError(name, None, f"line 1: version {version}; expected {_VERSION}")
    entries = [(number, line.split()) for number, line in enumerate(lines[2:], 3)]
    if len(entries) != count:
        raise DamagedFileError(name, None, f"{len(entries)} entries; line 2 says {count}")
    for number, fields in entries:
        if len(fields) != width:
            raise DamagedFileError(name, None, f"line {number}: {len(fields)} fields; expected {width}")
    return entries


def _read_number(text: str, name: str, line: int) -> int:
    if not text.lstrip("-").isascii() or not text.lstrip("-").isdigit() or len(text) > 20:
        raise DamagedFileError(name, None, f"line {line}: {text[:40]!r} is no number")
    return int(text)
