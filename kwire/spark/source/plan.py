"""Planning of scan tasks: small files whole, large ones by connection, a series of files like one capture.

Phase 1 indexes the files that are split; phase 2 distributes their flows over tasks. Flows between the same two hosts
stay together, because a fetch session may move from one connection of a client to the next.
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

from kwire.spark.indexing.local_indexing import build_indexes
from kwire.spark.source.capture_times import TimeSpan, find_time_spans, first_packet_ts

if TYPE_CHECKING:
    from kwire.capture.index import FlowInfo, FlowKey, Index
    from kwire.spark.source.options import PlanOptions
    from kwire.spark.source.pruning import PruningFilter

# By this factor a task may exceed the requested size before its flows are split.
_SLACK = 1.25


@dataclass
class ScanTask(InputPartition):
    """Files in order, and the flows to read from them: all flows where `flows` is None.

    `is_joined`: the files are read as one capture, else each on its own. `emits_issues`: this task also emits issues
    that belong to no flow. `hosts`: without an index, the number of this host partition and how many there are.
    `packets`: of one large flow, only the requests that begin in these packets, the second number excluded.
    """

    files: list[str]
    flows: frozenset[FlowKey] | None = None
    is_joined: bool = False
    emits_issues: bool = True
    hosts: tuple[int, int] = (0, 1)
    packets: tuple[int, int] | None = None


def plan_whole_files(files: Sequence[str], size_max: int) -> Iterator[ScanTask]:
    """Tasks that read whole files; small files share a task."""
    task_files: list[str] = []
    task_size = 0
    for file in files:
        size = os.stat(file).st_size
        if task_files and task_size + size > size_max:
            yield ScanTask(task_files)
            task_files, task_size = [], 0
        task_files.append(file)
        task_size += size
    if task_files:
        yield ScanTask(task_files)


def select_files(files: Sequence[str], plan_options: PlanOptions, pruning_filter: PruningFilter) -> list[str]:
    """The files whose time span may match; all files of a series, since connections continue from file to file."""
    if plan_options.across_files or not pruning_filter.has_time_conditions:
        return list(files)
    spans = find_time_spans(files, plan_options.index, plan_options.disorder)
    return [file for file in files if file not in spans or pruning_filter.may_match_span(spans[file])]


def plan_tasks(
    files: Sequence[str], plan_options: PlanOptions, pruning_filter: PruningFilter, *, may_split: bool
) -> list[ScanTask]:
    """The tasks of a query. `may_split`: whether several tasks may read one connection."""
    sizes = {file: os.stat(file).st_size for file in files}
    split_files = [file for file in files if plan_options.splits_file(sizes[file])]
    cache, task_bytes = plan_options.index, plan_options.task_bytes
    indexes = dict.fromkeys(split_files) if cache is None else build_indexes(split_files, cache)
    usable_indexes = [index for index in indexes.values() if index is not None]
    if plan_options.across_files:
        if len(usable_indexes) < len(files):
            return plan_host_tasks(files, max(1, sum(sizes.values()) // task_bytes))
        return plan_flow_tasks(usable_indexes, task_bytes, pruning_filter, is_joined=True, may_split=may_split)
    tasks = list(plan_whole_files([file for file in files if indexes.get(file) is None], task_bytes))
    for index in usable_indexes:
        tasks += plan_flow_tasks([index], task_bytes, pruning_filter, is_joined=False, may_split=may_split)
    return tasks


def plan_host_tasks(files: Sequence[str], count: int) -> list[ScanTask]:
    """Tasks for files without indexes: each one reads all files, and keeps the connections of its host partition."""
    first_times = {file: first_packet_ts(file) for file in files}
    ordered = sorted(files, key=lambda file: (first_times[file], file))
    return [ScanTask(ordered, None, True, number == 0, (number, count)) for number in range(count)]


def plan_flow_tasks(
    indexes: Sequence[Index], size_max: int, pruning_filter: PruningFilter, *, is_joined: bool, may_split: bool
) -> list[ScanTask]:
    """Tasks for the flows that may match, balanced by cost: largest flow first, to the task with the lowest cost."""
    ordered = sorted(indexes, key=lambda index: (index.first_ts, index.file))
    flows = _matching_flows(ordered, pruning_filter)
    split_tasks = _split_large_flows(ordered, size_max, pruning_filter, flows) if may_split else {}
    groups = [group for group in _flow_groups(ordered, size_max, flows) if split_tasks.keys().isdisjoint(group[1])]
    count = max(1, round(sum(cost for cost, _ in groups) / size_max))
    bins: list[tuple[int, int, list[FlowKey]]] = [(0, number, []) for number in range(count)]
    for cost, keys in sorted(groups, key=lambda group: -group[0]):
        total, number, bin_keys = heapq.heappop(bins)
        heapq.heappush(bins, (total + cost, number, [*bin_keys, *keys]))
    tasks = []
    for _, number, bin_keys in sorted(bins, key=lambda entry: entry[1]):
        task_keys = frozenset(bin_keys)
        emits_issues = number == 0
        files = [
            index.file
            for index in ordered
            if not task_keys.isdisjoint(index.flow_numbers) or (emits_issues and index.issues)
        ]
        if files:
            tasks.append(ScanTask(files, task_keys, is_joined, emits_issues=emits_issues))
    return [*tasks, *chain.from_iterable(split_tasks.values())]


def _matching_flows(indexes: Iterable[Index], pruning_filter: PruningFilter) -> dict[FlowKey, TimeSpan]:
    """The flows with rows that may match, each with its time span over all files."""
    spans: dict[FlowKey, TimeSpan] = {}
    for index in indexes:
        for flow in index.flows:
            span = spans.get(flow.key, TimeSpan(flow.first_ts, flow.last_ts))
            spans[flow.key] = TimeSpan(min(span.first, flow.first_ts), max(span.last, flow.last_ts))
    if not pruning_filter.has_conditions:
        return spans
    return {key: span for key, span in spans.items() if pruning_filter.may_match_flow(key, span)}


def _split_large_flows(
    indexes: Sequence[Index], size_max: int, pruning_filter: PruningFilter, flows: Collection[FlowKey]
) -> dict[FlowKey, list[ScanTask]]:
    """Tasks for flows that are too large for one: each task reads all headers, and the bodies of its own requests.

    Only flows whose requests and responses the index has paired completely are split: all tasks agree on the pairs.
    """
    split_tasks: dict[FlowKey, list[ScanTask]] = {}
    file_counts = Counter(key for index in indexes for key in index.flow_numbers)
    for index in indexes:
        for key, numbers in index.flow_numbers.items():
            connections = [index.flows[number] for number in numbers]
            cost = sum(flow.cost for flow in connections)
            is_large = cost > size_max * _SLACK and file_counts[key] == 1
            if not is_large or key not in flows:
                continue
            split_tasks[key] = [
                ScanTask([index.file], frozenset({key}), emits_issues=False, packets=packets)
                for packets, span in _split_requests(_flow_requests(index, numbers), -(-cost // size_max), connections)
                if pruning_filter.may_match_flow(key, span)
            ]
    return split_tasks


def _split_requests(
    requests: Sequence[_Request], count: int, connections: Sequence[FlowInfo]
) -> Iterator[tuple[tuple[int, int], TimeSpan]]:
    """Packet ranges with about the same number of requests each, and the time span of their rows."""
    count = min(count, len(requests))
    positions = [len(requests) * part // count for part in range(count)] if count else []
    starts = {requests[position].packet: position for position in reversed(positions[1:])}
    bounds = [(0, 0), *sorted(starts.items()), (1 << 62, len(requests))]
    for (first_packet, start), (end_packet, stop) in pairwise(bounds):
        part = requests[start:stop]
        # Rows without a request are read with the first range, at any time.
        span = TimeSpan(min(flow.first_ts for flow in connections), max(flow.last_ts for flow in connections))
        if start:
            span = TimeSpan(min(request.start_ts for request in part), max(request.end_ts for request in part))
        yield (first_packet, end_packet), span


class _Request(NamedTuple):
    """The packet in which a request begins, its time, and the time of the response's last byte."""

    packet: int
    start_ts: int
    end_ts: int


def _flow_requests(index: Index, flows: Sequence[int]) -> list[_Request]:
    """The requests of some flows, in order."""
    requests: list[_Request] = []
    for part in (*range(len(index.spans)), -1):
        exchanges = index.read_exchanges(part)
        # Exchanges whose request was sent before the capture began are left out.
        is_chosen = np.isin(exchanges.flow, flows) & (exchanges.request.frame.size >= 0)
        exchanges = exchanges.select(np.nonzero(is_chosen)[0])
        request, response = exchanges.request.frame, exchanges.response.frame
        end_ts = np.where(response.size < 0, request.end_ts, response.end_ts)
        requests += map(_Request, request.packet.tolist(), request.ts.tolist(), end_ts.tolist())
    return sorted(requests)


def _flow_groups(
    indexes: Iterable[Index], size_max: int, flows: Collection[FlowKey]
) -> Iterator[tuple[int, Collection[FlowKey]]]:
    """Groups of flows that stay together, with their cost: those between two hosts, unless they are too large."""
    costs_by_hosts: dict[tuple[bytes, bytes], dict[FlowKey, int]] = {}
    for index in indexes:
        for flow in index.flows:
            if flow.key not in flows:
                continue
            (one, _), (other, _) = flow.key
            costs = costs_by_hosts.setdefault((min(one, other), max(one, other)), {})
            costs[flow.key] = costs.get(flow.key, 0) + flow.cost
    for costs in costs_by_hosts.values():
        total = sum(costs.values())
        if total <= size_max * _SLACK:
            yield total, costs.keys()
        else:
            yield from ((cost, [key]) for key, cost in costs.items())
