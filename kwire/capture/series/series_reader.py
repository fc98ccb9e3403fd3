"""Read captures that continue each other, file after file: connections stay open from one file to the next.

`open_series` returns the reader of a level. Between two files it can be pickled (`checkpoint`), and continue in another
process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import numpy as np

from kwire.capture.index.column_schema import UNANSWERED_PART
from kwire.capture.index.stream_index import StreamIndex
from kwire.capture.kafka.topic_names import TopicNames
from kwire.capture.model import CaptureError
from kwire.capture.series.host_selection import HostSelection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kwire.capture.index.scan.packet_headers import PacketHeaders
    from kwire.capture.index.scan.stream_headers import HeaderBatch
    from kwire.capture.kafka.exchange import Outcome
    from kwire.capture.model import CaptureIssue, Packet
    from kwire.capture.options import Options
    from kwire.capture.series.host_selection import ReadsHosts
    from kwire.capture.tls.key_log import KeyLog

# What is not pickled: the reader in the other process gets or makes it.
_OF_ONE_PROCESS = frozenset({"last_ts", "_hosts", "_name"})


class SeriesReader(ABC):
    """Reads a series of captures.

    names: of topics, in all files. files: the captures by the time of their first packet, in order. last_ts: of the
    latest TCP packet that this process read, between any hosts.
    """

    def __init__(self, level: str, options: Options, keys: KeyLog) -> None:
        """No file was read yet. Args: keys: the secrets of TLS connections."""
        self.names = TopicNames(options.topics)
        self.files: list[tuple[int, str]] = []
        self.last_ts = 0
        self._level = level
        self._options = options
        self._index = StreamIndex("", (), options, keys, may_get_keys=True)
        self._index.select_packets = self._select_packets
        self._hosts: HostSelection | None = None
        self._name: str | None = None

    @abstractmethod
    def _read_parts(self, parts: Iterable[int]) -> Iterator[Outcome]:
        """The outcomes of parts of the index."""

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
        failure: CaptureError | OSError | None = None
        try:
            yield from self._finish_parts(self._index.read_file(packets))
        except (CaptureError, OSError) as error:
            failure = error
        found = self._index.end_file()
        if issues:
            yield from (issue for _, issue in found)
        if failure is not None:
            raise failure

    def read_headers(self, batch: HeaderBatch) -> Iterator[Outcome]:
        """The outcomes that packets complete whose headers were read elsewhere.

        Args: batch: at least one packet, between hosts that are read.
        """
        self._index.add_headers(batch)
        yield from self._finish_parts((0,))

    def expire(self, before_ts: int) -> Iterator[Outcome]:
        """Close connections without a packet since this time (nanoseconds), and return older messages that wait."""
        if self._index.has_packets:
            self._index.expire(before_ts)
            yield from self._finish_parts((0,))

    def close(self) -> Iterator[Outcome]:
        """The outcomes at the end of the series."""
        self._index.add_end()
        yield from self._finish_parts((UNANSWERED_PART,))

    def forget_files(self, before_ts: int) -> None:
        """Remove the files that ended before this time, when nothing that is open began earlier."""
        del self.files[: max(bisect_right(self.files, before_ts, key=lambda file: file[0]) - 1, 0)]

    def _finish_parts(self, parts: Iterable[int]) -> Iterator[Outcome]:
        """The outcomes of parts; what only these needed is dropped behind them."""
        yield from self._read_parts(parts)
        if self._index.has_packets:
            self._index.drop_part()

    def _select_packets(self, headers: PacketHeaders) -> PacketHeaders:
        """The packets between the hosts that are read."""
        if len(headers.number):
            if self._name is not None:
                self.files.append((int(headers.ts[0]), self._name))
                self._name = None
            self.last_ts = max(self.last_ts, int(headers.ts.max()))
        return headers if self._hosts is None else headers.select(np.nonzero(self._hosts.includes(headers.ends))[0])

    def __getstate__(self) -> dict[str, Any]:
        """The state between two files."""
        return {name: value for name, value in vars(self).items() if name not in _OF_ONE_PROCESS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore what `__getstate__` returned."""
        vars(self).update(state)
        self.last_ts, self._hosts, self._name = 0, None, None
        self._index.select_packets = self._select_packets
