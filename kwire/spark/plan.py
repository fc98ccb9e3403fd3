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
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from kwire.spark.indexing import indexed
from kwire.spark.rolling import first_ts

if TYPE_CHECKING:
    from kwire.capture.index import FlowKey, Index
    from kwire.spark.options import PlanOptions

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


def tasks(files: Sequence[str], asked: PlanOptions, *, may_cut: bool) -> list[Task]:
    """The tasks of a query. `may_cut`: whether requests of one connection may be read by several."""
    sizes = {file: os.stat(file).st_size for file in files}
    large = [file for file in files if asked.takes_apart(sizes[file])]
    indexes = indexed(large, asked.index) if asked.index is not None else dict.fromkeys(large)
    ready = [index for index in indexes.values() if index is not None]
    if asked.across_files:
        if len(ready) < len(files):
            return by_hosts(files, max(1, sum(sizes.values()) // asked.task_bytes))
        return shared(ready, asked.task_bytes, is_joined=True, may_cut=may_cut)
    found = list(whole([file for file in files if indexes.get(file) is None], asked.task_bytes))
    for index in ready:
        found += shared([index], asked.task_bytes, is_joined=False, may_cut=may_cut)
    return found


def by_hosts(files: Sequence[str], count: int) -> list[Task]:
    """Without indexes every task goes through all files, and takes what belongs to its share of the hosts."""
    beginnings = {file: first_ts(file) for file in files}
    ordered = sorted(files, key=lambda file: (beginnings[file], file))
    return [Task(ordered, None, True, number == 0, (number, count)) for number in range(count)]


def shared(indexes: Sequence[Index], size_max: int, *, is_joined: bool, may_cut: bool) -> list[Task]:
    """The flows of some files, shared out by cost: the largest first, each to the task that has least."""
    ordered = sorted(indexes, key=lambda index: (index.first_ts, index.file))
    cut = _cut(ordered, size_max) if may_cut else {}
    groups = [(cost, keys) for cost, keys in _groups(ordered, size_max) if cut.keys().isdisjoint(keys)]
    count = max(1, round(sum(cost for cost, _ in groups) / size_max))
    bins: list[tuple[int, int, list[FlowKey]]] = [(0, number, []) for number in range(count)]
    for cost, keys in sorted(groups, key=lambda group: -group[0]):
        total, number, held = heapq.heappop(bins)
        heapq.heappush(bins, (total + cost, number, [*held, *keys]))
    found = []
    for _, number, keys in sorted(bins, key=lambda each: each[1]):
        chosen = frozenset(keys)
        files = [index.file for index in ordered if not chosen.isdisjoint(index.numbers) or number == 0]
        if chosen or number == 0:
            found.append(Task(files, chosen, is_joined, tells_troubles=number == 0))
    return [*found, *chain.from_iterable(cut.values())]


def _cut(indexes: Sequence[Index], size_max: int) -> dict[FlowKey, list[Task]]:
    """Flows that are too large for a task: each task reads all heads, and the bodies of its own requests.

    Only flows that the index has paired whole, so that all of them know what belongs together.
    """
    found: dict[FlowKey, list[Task]] = {}
    places = Counter(flow.key for index in indexes for flow in index.flows)
    for index in indexes:
        for number, flow in enumerate(index.flows):
            if flow.cost <= size_max * _SLACK or not flow.is_clean or places[flow.key] > 1:
                continue
            requests = _requests_of(index, number)
            count = min(-(-flow.cost // size_max), len(requests))
            starts = [requests[len(requests) * part // count] for part in range(1, count)]
            spans = pairwise([0, *dict.fromkeys(starts), 1 << 62])
            found[flow.key] = [
                Task([index.file], frozenset({flow.key}), tells_troubles=False, packets=span) for span in spans
            ]
    return found


def _requests_of(index: Index, flow: int) -> list[int]:
    """The packets in which the requests of a flow begin, in order."""
    packets: list[int] = []
    for part in (*range(len(index.spans)), -1):
        found = index.exchanges(part)
        packets += found.request.frame.packet[found.flow == flow].tolist()
    return sorted(packets)


def _groups(indexes: Iterable[Index], size_max: int) -> Iterator[tuple[int, Collection[FlowKey]]]:
    """Flows that had better stay together, and what they cost: those of two hosts, unless they are too many."""
    by_hosts: dict[tuple[bytes, bytes], dict[FlowKey, int]] = {}
    for index in indexes:
        for flow in index.flows:
            (one, _), (other, _) = flow.key
            costs = by_hosts.setdefault((min(one, other), max(one, other)), {})
            costs[flow.key] = costs.get(flow.key, 0) + flow.cost
    for costs in by_hosts.values():
        total = sum(costs.values())
        if total <= size_max * _SLACK:
            yield total, costs.keys()
        else:
            yield from ((cost, [key]) for key, cost in costs.items())
