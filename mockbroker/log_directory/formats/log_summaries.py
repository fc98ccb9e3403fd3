"""A file of mockbroker's own in each log directory: what the files of each log must have at least.

In Kafka's formats transaction indexes have no checksum, and one without entries looks like one that is lost.
Text: a line with the version, a line for each log, and one with the CRC-32C of those before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kwire.records import checksum
from mockbroker.log_directory.formats.damage import DamagedFileError
from mockbroker.log_directory.formats.indexes import write_transaction_index
from mockbroker.state.storage.producers import AbortedTransaction

LOG_SUMMARIES = ".mockbroker-logs"
_VERSION = "1"
_FIELD_COUNT = 8


class LogSummary(NamedTuple):
    """What was in the files of a log.

    high_watermark: offsets below were acknowledged. size: bytes of all segments. indexed_end: the transaction indexes
    have the aborted transactions whose markers are below. aborted_count, aborted_crc: of these, as far as they are not
    below the start of the log.
    """

    topic_id: bytes
    high_watermark: int
    size: int
    indexed_end: int
    aborted_count: int
    aborted_crc: int

    @classmethod
    def of(
        cls,
        topic_id: bytes,
        aborted: Iterable[AbortedTransaction],
        *,
        high_watermark: int,
        size: int,
        indexed_end: int,
    ) -> LogSummary:
        """The summary of a log with these aborted transactions."""
        indexed = [one for one in aborted if one.last_offset < indexed_end]
        return cls(topic_id, high_watermark, size, indexed_end, len(indexed), _crc_of(indexed))

    def has_all(self, aborted: Iterable[AbortedTransaction], start_offset: int) -> bool:
        """Whether transaction indexes have what they had. start_offset: of the log."""
        indexed = [one for one in aborted if start_offset <= one.last_offset < self.indexed_end]
        return len(indexed) == self.aborted_count and _crc_of(indexed) == self.aborted_crc


Summaries = dict[tuple[str, int], LogSummary]


def write_summaries(summaries: Summaries) -> bytes:
    """The file of these summaries, by topic and partition."""
    lines = [_VERSION]
    for (topic, index), one in summaries.items():
        numbers = (one.high_watermark, one.size, one.indexed_end, one.aborted_count, one.aborted_crc)
        lines.append(" ".join([topic, str(index), one.topic_id.hex(), *map(str, numbers)]))
    content = "".join(f"{line}\n" for line in lines).encode()
    return content + f"{checksum.crc32c(content):08x}\n".encode()


def read_summaries(data: bytes, name: str) -> Summaries:
    """The summaries. Raises: DamagedFileError."""
    content, separator, last = data.removesuffix(b"\n").rpartition(b"\n")
    content += separator
    if last != f"{checksum.crc32c(content):08x}".encode():
        raise DamagedFileError(name, len(content), "the last line is not the checksum of those before it")
    lines = content.decode("ascii", errors="replace").splitlines()
    if lines[:1] != [_VERSION]:
        raise DamagedFileError(name, 0, f"version {lines[:1]}; expected {_VERSION}")
    return dict(_read_line(line.split(" "), name) for line in lines[1:])


def _read_line(fields: Sequence[str], name: str) -> tuple[tuple[str, int], LogSummary]:
    if len(fields) != _FIELD_COUNT:
        raise DamagedFileError(name, None, f"a line of {len(fields)} fields; expected {_FIELD_COUNT}")
    topic, index, topic_id, *numbers = fields
    try:
        high_watermark, size, indexed_end, count, crc = map(int, numbers)
        summary = LogSummary(bytes.fromhex(topic_id), high_watermark, size, indexed_end, count, crc)
        return (topic, int(index)), summary
    except ValueError as error:
        raise DamagedFileError(name, None, f"the line of {topic} {index}: {error}") from error


def _crc_of(aborted: Sequence[AbortedTransaction]) -> int:
    return checksum.crc32c(write_transaction_index(aborted))
