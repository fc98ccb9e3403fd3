"""Read captures that continue each other, file after file: connections stay open from one file to the next.

`open_series` returns the reader of a level. Between two files it can be pickled (`checkpoint`), and continue in another
process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from kwire.capture.kafka.topic_names import TopicNames
from kwire.capture.series.host_selection import HostSelection

if TYPE_CHECKING:
    from kwire.capture.index.scan.stream_headers import HeaderBatch
    from kwire.capture.kafka.exchange import Outcome
    from kwire.capture.model import CaptureIssue, Packet
    from kwire.capture.options import Options
    from kwire.capture.series.host_selection import ReadsHosts

# What is not pickled: the reader in the other process gets or makes it.
_OF_ONE_PROCESS = frozenset({"last_ts", "_hosts", "_reader", "_name"})


class SeriesReader(ABC):
    """Reads a series of captures.

    names: of topics, in all files. files: the captures by the time of their first packet, in order. last_ts: of the
    latest TCP packet that this process read, between any hosts.
    """

    def __init__(self, options: Options) -> None:
        """No file was read yet."""
        self.names = TopicNames(options.topics)
        self.files: list[tuple[int, str]] = []
        self.last_ts = 0
        self._hosts: HostSelection | None = None
        self._name: str | None = None

    def select_hosts(self, reads_hosts: ReadsHosts) -> None:
        """From now on read only the packets between some hosts."""
        self._hosts = HostSelection(reads_hosts)

    def read_file(
        self, packets: Iterable[Packet | CaptureIssue], *, name: str | None = None, issues: bool = True
    ) -> Iterator[Outcome]:
        """The outcomes that the packets of the next file complete; what is open remains open.

        Args: name: the file is added to `files` when its first packet is read; None if it is there already. issues:
            whether those of the file are outcomes, at its end.
        Raises: as `packets` does, after the outcomes of the packets before.
        """
        self._name = name
        return self._read_packets(packets, issues=issues)

    @abstractmethod
    def _read_packets(self, packets: Iterable[Packet | CaptureIssue], *, issues: bool) -> Iterator[Outcome]:
        """As `read_file`."""

    @abstractmethod
    def read_headers(self, batch: HeaderBatch) -> Iterator[Outcome]:
        """The outcomes that packets complete whose headers were read elsewhere.

        Args: batch: at least one packet, between hosts that are read.
        """

    @abstractmethod
    def expire(self, before_ts: int) -> Iterator[Outcome]:
        """Close connections without a packet since this time (nanoseconds), and return older messages that wait."""

    @abstractmethod
    def close(self) -> Iterator[Outcome]:
        """The outcomes at the end of the series."""

    def forget_files(self, before_ts: int) -> None:
        """Remove the files that ended before this time, when nothing that is open began earlier."""
        del self.files[: max(bisect_right(self.files, before_ts, key=lambda file: file[0]) - 1, 0)]

    def _note_times(self, first_ts: int, last_ts: int) -> None:
        """Note the times of packets of the file that is read."""
        if self._name is not None:
            self.files.append((first_ts, self._name))
            self._name = None
        self.last_ts = max(self.last_ts, last_ts)

    def __getstate__(self) -> dict[str, Any]:
        """The state between two files."""
        return {name: value for name, value in vars(self).items() if name not in _OF_ONE_PROCESS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore what `__getstate__` returned."""
        vars(self).update(state)
        self.last_ts, self._hosts, self._name = 0, None, None
