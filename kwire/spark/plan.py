"""How captures become tasks: small files whole, large ones by their connections, a series of files as if it were one.

Phase 1 indexes what has to be taken apart; phase 2 shares the flows out, those between the same two hosts together,
because a fetch session may move from one connection of a client to the next.
"""

from __future__ import annotations

import heapq
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pyspark.sql.datasource import InputPartition

from kwire.spark.indexing import indexed
from kwire.spark.rolling import first_ts
from kwire.spark.times import Span, spans_of

if TYPE_CHECKING:
    from kwire.capture.index import FlowInfo, FlowKey, Index
    from kwire.spark.options import PlanOptions
    from kwire.spark.prospect import Prospect

# A bin may be so much fuller than asked before what is in it is taken apart.
_SLACK = 1.25


@dataclass
class Task(InputPartition):
    """Files in order, and the flows of them that are read: all of them where `flows` is None.

    `is_joined`: the files are read as one capture, else each alone. `tells_troubles`: what belongs to no flow is told
    by one task of a set. `hosts`: without an index, the share of the hosts that is read, and of how many. `packets`: of
    one large flow, the requests that begin in these packets, up to the second number.
    """

    files: list[str]
    flows: frozenset[FlowKey] | None = None
    is_joined: bool = False
    tells_troubles: bool = True
    hosts: tuple[int, int] = (0, 1)
    packets: tuple[int, int] | None = None


def whole(files: Sequence[str], size_max: int) -> Iterator[Task]:
    """Each file is read alone, in one piece; small ones share a task."""
    held: list[str] = []
    held_size = 0
    for file in files:
        size = os.stat(file).st_size
        if held and held_size + size > size_max:
            yield Task(held)
            held, held_size = [], 0
        held.append(file)
        held_size += size
    if held:
        yield Task(held)


def of_interest(files: Sequence[str], asked: PlanOptions, prospect: Prospect) -> list[str]:
    """The files that have to be opened: those of the right times; all of a series, since connections go on in it."""
    if asked.across_files or not prospect.asks_times:
        return list(files)
    spans = spans_of(files, asked.index, asked.disorder)
    return [file for file in files if file not in spans or prospect.may_be_in(spans[file])]


def tasks(files: Sequence[str], asked: PlanOptions, prospect: Prospect, *, may_cut: bool) -> list[Task]:
    """The tasks of a query, one at least. `may_cut`: whether requests of one connection may be read by several."""
    # For Spark no task is one that nobody has planned.
    return _tasks(files, asked, prospect, may_cut=may_cut) or [Task([])]


def _tasks(files: Sequence[str], asked: PlanOptions, prospect: Prospect, *, may_cut: bool) -> list[Task]:
    sizes = {file: os.stat(file).st_size for file in files}
    large = [file for file in files if asked.takes_apart(sizes[file])]
    indexes = indexed(large, asked.index) if asked.index is not None else dict.fromkeys(large)
    ready = [index for index in indexes.values() if index is not None]
    if asked.across_files:
        if len(ready) < len(files):
            return by_hosts(files, max(1, sum(sizes.values()) // asked.task_bytes))
        return shared(ready, asked.task_bytes, prospect, is_joined=True, may_cut=may_cut)
    found = list(whole([file for file in files if indexes.get(file) is None], asked.task_bytes))
    for index in ready:
        found += shared([index], asked.task_bytes, prospect, is_joined=False, may_cut=may_cut)
    return found


def by_hosts(files: Sequence[str], count: int) -> list[Task]:
    """Without indexes every task goes through all files, and takes what belongs to its share of the hosts."""
    beginnings = {file: first_ts(file) for file in files}
    ordered = sorted(files, key=lambda file: (beginnings[file], file))
    return [Task(ordered, None, True, number == 0, (number, count)) for number in range(count)]


def shared(
    indexes: Sequence[Index], size_max: int, prospect: Prospect, *, is_joined: bool, may_cut: bool
) -> list[Task]:
    """The flows of some files that may be wanted, shared out by cost: the largest first, to the task that has least."""
    ordered = sorted(indexes, key=lambda index: (index.first_ts, index.file))
    wanted = _wanted(ordered, prospect)
    cut = _cut(ordered, size_max, prospect, wanted) if may_cut else {}
    groups = [(cost, keys) for cost, keys in _groups(ordered, size_max, wanted) if cut.keys().isdisjoint(keys)]
    count = max(1, round(sum(cost for cost, _ in groups) / size_max))
    bins: list[tuple[int, int, list[FlowKey]]] = [(0, number, []) for number in range(count)]
    for cost, keys in sorted(groups, key=lambda group: -group[0]):
        total, number, held = heapq.heappop(bins)
        heapq.heappush(bins, (total + cost, number, [*held, *keys]))
    found = []
    for _, number, keys in sorted(bins, key=lambda each: each[1]):
        chosen = frozenset(keys)
        tells = number == 0
        files = [each.file for each in ordered if not chosen.isdisjoint(each.numbers) or (tells and each.troubles)]
        if files:
            found.append(Task(files, chosen, is_joined, tells_troubles=tells))
    return [*found, *chain.from_iterable(cut.values())]


def _wanted(indexes: Iterable[Index], prospect: Prospect) -> dict[FlowKey, Span]:
    """The flows of which a row may be wanted, each with its times in all files."""
    spans: dict[FlowKey, Span] = {}
    for index in indexes:
        for flow in index.flows:
            known = spans.get(flow.key, Span(flow.first_ts, flow.last_ts))
            spans[flow.key] = Span(min(known.first, flow.first_ts), max(known.last, flow.last_ts))
    if not prospect.asks:
        return spans
    return {key: span for key, span in spans.items() if prospect.may_be_of(key, span)}


def _cut(
    indexes: Sequence[Index], size_max: int, prospect: Prospect, wanted: Collection[FlowKey]
) -> dict[FlowKey, list[Task]]:
    """Flows that are too large for a task: each task reads all heads, and the bodies of its own requests.

    Only flows that the index has paired whole, so that all of them know what belongs together.
    """
    found: dict[FlowKey, list[Task]] = {}
    places = Counter(flow.key for index in indexes for flow in index.flows)
    for index in indexes:
        for number, flow in enumerate(index.flows):
            is_large = flow.cost > size_max * _SLACK and flow.is_clean and places[flow.key] == 1
            if not is_large or flow.key not in wanted:
                continue
            found[flow.key] = [
                Task([index.file], frozenset({flow.key}), tells_troubles=False, packets=span)
                for span, times in _pieces(_requests_of(index, number), -(-flow.cost // size_max), flow)
                if prospect.may_be_of(flow.key, times)
            ]
    return found


def _pieces(requests: Sequence[_Request], count: int, flow: FlowInfo) -> Iterator[tuple[tuple[int, int], Span]]:
    """Spans of packets with about as many requests each, and between which times their rows are."""
    count = min(count, len(requests))
    places = [len(requests) * part // count for part in range(count)] if count else []
    starts = {requests[place].packet: place for place in reversed(places[1:])}
    bounds = [(0, 0), *sorted(starts.items()), (1 << 62, len(requests))]
    for (first, begin), (end, stop) in pairwise(bounds):
        own = requests[begin:stop]
        # What has no request is read with the first ones, whenever it was.
        times = (
            Span(min(each.begun for each in own), max(each.done for each in own))
            if begin
            else Span(flow.first_ts, flow.last_ts)
        )
        yield (first, end), times


class _Request(NamedTuple):
    """The packet in which a request begins, when that was, and when the last byte of its response came."""

    packet: int
    begun: int
    done: int


def _requests_of(index: Index, flow: int) -> list[_Request]:
    """The requests of a flow, in order."""
    requests: list[_Request] = []
    for part in (*range(len(index.spans)), -1):
        found = index.exchanges(part)
        # What was asked for before the capture began is no request of it.
        found = found.of(np.nonzero((found.flow == flow) & (found.request.frame.size >= 0))[0])
        asked, answered = found.request.frame, found.response.frame
        done = np.where(answered.size < 0, asked.end_ts, answered.end_ts)
        requests += map(_Request, asked.packet.tolist(), asked.ts.tolist(), done.tolist())
    return sorted(requests)


def _groups(
    indexes: Iterable[Index], size_max: int, wanted: Collection[FlowKey]
) -> Iterator[tuple[int, Collection[FlowKey]]]:
    """Flows that had better stay together, and what they cost: those of two hosts, unless they are too many."""
    by_hosts: dict[tuple[bytes, bytes], dict[FlowKey, int]] = {}
    for index in indexes:
        for flow in index.flows:
            if flow.key not in wanted:
                continue
            (one, _), (other, _) = flow.key
            costs = by_hosts.setdefault((min(one, other), max(one, other)), {})
            costs[flow.key] = costs.get(flow.key, 0) + flow.cost
    for costs in by_hosts.values():
        total = sum(costs.values())
        if total <= size_max * _SLACK:
            yield total, costs.keys()
        else:
            yield from ((cost, [key]) for key, cost in costs.items())
