"""Stage 2 of parallel indexing: join the ranges of a file; rereads each range that does not begin where the last ends.

After the join no result depends on a guess: packets have their numbers in the file, pairs of endpoints are numbered by
their first packet and divided into shards, and IP fragments are reassembled.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kwire.capture.index.arrays import NO_NUMBERS, Ints, Words, concatenate_rows
from kwire.capture.index.column_schema import PACKET_TYPES
from kwire.capture.index.columns import Columns, new_columns_file
from kwire.capture.index.parallel.ranges import FileRange, RangeFile, read_range
from kwire.capture.index.scan.files import CaptureFile, Source
from kwire.capture.index.scan.header_pass import HeaderPass
from kwire.capture.index.scan.packet_copies import NO_KEYS, find_copies, latest_keys
from kwire.capture.index.scan.packet_headers import PacketHeaders
from kwire.capture.index.scan.scanner import open_scanner
from kwire.capture.index.scan.spans import ScanState
from kwire.capture.index.stored_payload import StoredPayload
from kwire.capture.merged_issues import merge_numbered
from kwire.capture.model import CaptureIssue, Packet
from kwire.capture.network.packet_copies import COPIES_KIND, copies_issue

# This many pairs, the largest ones, are assigned to shards by their size; the others are assigned in turn.
_WEIGHED_MAX = 10_000
# The kind of issue that counts packets in unsupported tunnels, over all ranges; and the one that belongs to no packet.
_COUNTED_KIND, _FILE_KIND = "encapsulated", "dropped"


class _PlacedRange(NamedTuple):
    """A range and its position: its number among the ranges, and the number of packets before it."""

    number: int
    range_file: RangeFile
    before: int
    is_reread: bool


class WorkFolder:
    """The folder of the intermediate files of parallel indexing."""

    def __init__(self, path: Path) -> None:
        """The folder exists."""
        self.path = path

    def range_path(self, number: int) -> Path:
        """The file with the packets of a range."""
        return self.path / f"range-{number}"

    @property
    def joined_path(self) -> Path:
        """The file with the results of the join."""
        return self.path / "joined"

    def shard_path(self, number: int) -> Path:
        """The file with the flows of a shard."""
        return self.path / f"shard-{number}"


def join_range_files(source: Source, folder: WorkFolder, ranges: Sequence[FileRange], shards: int) -> int:
    """Join the ranges, whose files are in the folder, and divide the pairs of endpoints into this many shards.

    Returns: how many ranges had to be read again.
    Raises: NotIndexed; CaptureError; OSError.
    """
    with new_columns_file(folder.joined_path) as columns, CaptureFile(source) as file:
        # Bytes appended meanwhile are not read. An index of a changed file is not valid for the new one.
        file.size = min(file.size, ranges[-1].stop)
        scanner = open_scanner(file)
        state = ScanState(scanner.first)
        placed_ranges = list(_chain_ranges(source, folder, ranges, state))
        summaries = [placed.range_file.summary for placed in placed_ranges]
        fragmented = _FragmentedPackets(file, columns)
        spans: list[tuple[int, int, int, int]] = []
        for number, range_file, before, _ in placed_ranges:
            for span, (base, size) in enumerate(range_file.summary.spans):
                fragmented.add_fragments(len(spans), range_file.read_deferred(span), before)
                spans.append((number, span, base, size))
        pairs = _PairNumbers(placed_ranges, fragmented)
        pairs.write_pairs(columns, placed_ranges, shards)
        fragmented.write_packets(pairs.numbers)
        copies, copies_ts = _find_copies(placed_ranges)
        columns.add_column("copies", copies)
        scanner.report_end(state)
        columns.metadata = {
            "ranges": ranges,
            "spans": spans,
            "before": {str(placed.number): placed.before for placed in placed_ranges},
            "fragmented": sorted(fragmented.headers),
            "stored": fragmented.stored.extents,
            "shards": shards,
            "index": {
                "size": file.size,
                "mtime_ns": min([file.mtime_ns, *(summary.mtime_ns for summary in summaries)]),
                "packet_count": state.packet_count,
                "first_ts": min((summary.first_ts for summary in summaries if summary.spans), default=0),
                "last_ts": max((summary.last_ts for summary in summaries), default=0),
                "secrets_at": state.key_logs,
                "may_have_secrets": scanner.may_have_secrets,
                "issues": [
                    *_collect_issues(placed_ranges, fragmented.header_pass, state),
                    *_copies_issues(placed_ranges, copies, copies_ts, state.packet_count),
                ],
            },
        }
    return sum(placed.is_reread for placed in placed_ranges)


def _chain_ranges(
    source: Source, folder: WorkFolder, ranges: Sequence[FileRange], state: ScanState
) -> Iterator[_PlacedRange]:
    """The ranges with records, each beginning where the one before ends; `state` is advanced past each of them."""
    for number, file_range in enumerate(ranges):
        if state.is_ended:
            return
        if state.position.at >= file_range.stop:
            continue
        range_file = RangeFile(folder.range_path(number))
        depends_on_before = range_file.summary.state.depends_on_before and state.packet_count > 0
        is_reread = range_file.summary.begin != state.position or depends_on_before
        if is_reread:
            before = state.packet_count, state.last_ts
            read_range(source, file_range, state.position, folder.range_path(number), before)
            range_file = RangeFile(folder.range_path(number))
        yield _PlacedRange(number, range_file, state.packet_count, is_reread)
        range_state = range_file.summary.state
        state.position, state.is_ended = range_state.position, range_state.is_ended
        state.last_ts = range_state.last_ts if range_state.packet_count else state.last_ts
        state.packet_count += range_state.packet_count
        state.key_logs += range_state.key_logs


class _FragmentedPackets:
    """Reassembles the deferred IP fragments in the order of the file."""

    def __init__(self, file: CaptureFile, columns: Columns) -> None:
        self.header_pass = HeaderPass()
        self.headers: dict[int, PacketHeaders] = {}
        self.stored = StoredPayload(columns, [])
        self._file = file
        self._columns = columns

    def add_fragments(self, span: int, deferred: list[tuple[int, ...]], before: int) -> None:
        """Add the fragments of the next span. Args: before: number of packets before their range."""
        if deferred:
            headers = self.header_pass.read_packets(self._read_deferred_packets(deferred, before))
            if len(headers.number):
                self.headers[span] = headers
        self.stored.add_span(self.header_pass.take_stored())

    def write_packets(self, numbers: dict[tuple[int, ...], int]) -> None:
        """Write the reassembled packets. Args: numbers: by words of endpoints, their number."""
        for span, headers in self.headers.items():
            pair = np.array([numbers[tuple(words)] for words in headers.ends.tolist()], dtype=np.int64)
            for name, kind in PACKET_TYPES.items():
                column = pair if name == "pair" else getattr(headers, name)
                self._columns.add_column(f"{span}.fragmented.{name}", column.astype(kind))

    def _read_deferred_packets(self, deferred: list[tuple[int, ...]], before: int) -> Iterator[tuple[Packet, int]]:
        for number, ts, link, at, captured, size in deferred:
            yield Packet(number + before, ts, link, self._file.read(at, captured), size), at


class _PairNumbers:
    """Numbers the pairs of endpoints of all ranges in the order of their first packets."""

    def __init__(self, placed_ranges: Sequence[_PlacedRange], fragmented: _FragmentedPackets) -> None:
        firsts: dict[tuple[int, ...], int] = {}
        counts: dict[tuple[int, ...], int] = {}
        for placed in placed_ranges:
            words, first, count = (column.tolist() for column in placed.range_file.read_pairs())
            for key, first_packet, packets in zip(map(tuple, words), first, count, strict=True):
                firsts.setdefault(key, first_packet + placed.before)
                counts[key] = counts.get(key, 0) + packets
        for headers in fragmented.headers.values():
            for key, number in zip(map(tuple, headers.ends.tolist()), headers.number.tolist(), strict=True):
                firsts[key] = min(firsts.get(key, number), number)
                counts[key] = counts.get(key, 0) + 1
        ordered = sorted(firsts, key=firsts.__getitem__)
        self.numbers = {key: number for number, key in enumerate(ordered)}
        self._counts = np.array([counts[key] for key in ordered], dtype=np.int64)

    def write_pairs(self, columns: Columns, placed_ranges: Sequence[_PlacedRange], shards: int) -> None:
        """Write the pairs, the shard of each, and for each range a map from its pair numbers to these."""
        columns.add_column("pair.words", np.array(list(self.numbers), dtype=np.uint64).reshape(-1))
        columns.add_column("pair.shards", assign_shards(self._counts, shards).astype("i4"))
        for placed in placed_ranges:
            numbers = [self.numbers[tuple(key)] for key in placed.range_file.read_pairs()[0].tolist()]
            columns.add_column(f"numbers.{placed.number}", np.array(numbers, dtype="i4"))


def assign_shards(costs: Ints, shards: int) -> Ints:
    """Assign pairs to shards so that all shards have about the same cost."""
    out = np.arange(len(costs), dtype=np.int64) % shards
    loads = [(0, shard) for shard in range(shards)]
    for pair in np.argsort(-costs, kind="stable")[:_WEIGHED_MAX].tolist():
        cost, shard = heapq.heappop(loads)
        out[pair] = shard
        heapq.heappush(loads, (cost + int(costs[pair]), shard))
    return out


def _find_copies(placed_ranges: Sequence[_PlacedRange]) -> tuple[Ints, Ints]:
    """The numbers and times of packets that are copies of packets of earlier ranges."""
    latest, numbers, times = NO_KEYS, [NO_NUMBERS], [NO_NUMBERS]
    for _, range_file, before, _ in placed_ranges:
        head, tail = (keys._replace(number=keys.number + before) for keys in range_file.read_copy_keys())
        is_copy = find_copies(concatenate_rows(latest, head))[len(latest.number) :] & ~find_copies(head)
        numbers.append(head.number[is_copy])
        times.append(head.ts[is_copy])
        latest = latest_keys(concatenate_rows(latest, tail), before + range_file.summary.state.packet_count)
    return np.concatenate(numbers), np.concatenate(times)


def _copies_issues(
    placed_ranges: Sequence[_PlacedRange], copies: Ints, times: Ints, end: int
) -> list[tuple[int, CaptureIssue]]:
    """The issue about the copies in all ranges, if there are any."""
    counts = [(packet, ts, 1) for packet, ts in zip(copies.tolist(), times.tolist(), strict=True)]
    for _, range_file, before, _ in placed_ranges:
        issues = [issue for _, issue in range_file.summary.issues if issue.kind == COPIES_KIND]
        counts += [(issue.packet + before, issue.ts, issue.packets) for issue in issues]
    if not counts:
        return []
    packet, ts, _ = min(counts)
    return [(end, copies_issue(packet, ts, sum(count for _, _, count in counts)))]


def _collect_issues(
    placed_ranges: Sequence[_PlacedRange], header_pass: HeaderPass, state: ScanState
) -> list[tuple[int, CaptureIssue]]:
    """All issues but that about copies, in the order in which one pass over the file finds them."""
    numbered: list[tuple[int, CaptureIssue]] = []
    counted: list[tuple[int, CaptureIssue]] = []
    for _, range_file, before, _ in placed_ranges:
        for number, issue in range_file.summary.issues:
            moved = issue if issue.kind == _FILE_KIND else issue._replace(packet=issue.packet + before)
            if issue.kind == _COUNTED_KIND:
                counted.append((state.packet_count, moved))
            elif issue.kind != COPIES_KIND:
                numbered.append((number + before, moved))
    counted_last = sorted(
        [*header_pass.close(state, numbered), *counted],
        key=lambda each: each[1].packet if each[1].kind == _COUNTED_KIND else -1,
    )
    return merge_numbered(counted_last)


class JoinedRanges:
    """The results of the join and the packets of the ranges, for reading."""

    def __init__(self, folder: WorkFolder) -> None:
        """Raises: OSError, BadColumnsError."""
        self._columns = Columns.read_new_file(folder.joined_path)
        self._folder = folder
        metadata = self._columns.metadata
        self.index: dict[str, Any] = metadata["index"]
        self.shards: int = metadata["shards"]
        self.ranges = [FileRange(start, stop) for start, stop in metadata["ranges"]]
        self._spans = metadata["spans"]
        self._before: dict[str, int] = metadata["before"]
        self._fragmented = frozenset(metadata["fragmented"])
        self._copies: Ints = self._columns["copies"]
        self._range: tuple[int, RangeFile, Ints] | None = None
        self.stored = StoredPayload(self._columns, [(at, size) for at, size in metadata["stored"]])
        """The payloads that arrived in IP fragments."""

    @property
    def extents(self) -> list[tuple[int, int]]:
        """Offset and size of each span."""
        return [(base, size) for _, _, base, size in self._spans]

    @property
    def words(self) -> Words:
        """The words of each pair of endpoints."""
        return self._columns["pair.words"].reshape(-1, 5)

    def shard_pairs(self, shard: int) -> Ints:
        """The numbers of the pairs of a shard."""
        return np.nonzero(self._columns["pair.shards"] == shard)[0]

    def read_packets(self, span: int) -> dict[str, Any]:
        """The columns of the packets of a span, with packet and pair numbers of the index."""
        number, range_span, _, _ = self._spans[span]
        if self._range is None or self._range[0] != number:
            self._range = number, RangeFile(self._folder.range_path(number)), self._columns[f"numbers.{number}"]
        _, range_file, numbers = self._range
        packets: dict[str, Any] = range_file.read_packets(range_span)
        packets["number"] = packets["number"] + self._before[str(number)]
        packets["pair"] = numbers[packets["pair"]]
        if span in self._fragmented:
            pairs = {name: [packets[name], self._columns[f"{span}.fragmented.{name}"]] for name in PACKET_TYPES}
            merged = {name: np.concatenate(columns) for name, columns in pairs.items()}
            order = np.argsort(merged["number"], kind="stable")
            packets = {name: column[order] for name, column in merged.items()}
        is_copy = np.isin(packets["number"], self._copies)
        return {name: column[~is_copy] for name, column in packets.items()} if is_copy.any() else packets
