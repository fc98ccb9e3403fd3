"""Execution of the tasks of a batch query: rows of whole files, of some flows, or of a series of files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from kwire.capture.files.packet_reader import read_packets
from kwire.capture.model import CaptureError
from kwire.capture.reader import read_batches, read_flow_batches, read_series_rows
from kwire.capture.rows.record_batches import to_record_batches
from kwire.capture.series.open_series import open_series
from kwire.capture.tls.key_log import KeyLog
from kwire.spark.source.host_partitioning import host_partition

if TYPE_CHECKING:
    import pyarrow as pa

    from kwire.capture.model import Row
    from kwire.spark.source.plan import ScanTask
    from kwire.spark.source.scan_request import ScanRequest


def read_task(task: ScanTask, scan_request: ScanRequest, cache: str | None) -> Iterator[pa.RecordBatch]:
    """The rows of a task, filtered.

    Raises: CaptureError that names the file.
    """
    if task.packets is not None:
        scan_request = scan_request.with_packet_range(task.packets)
    if task.flows is not None:
        batches = _read_flows(task, scan_request, cache)
    elif task.is_joined:
        batches = rows_to_batches(_read_host_share(task, scan_request), scan_request)
    else:
        batches = _read_whole_files(task, scan_request)
    return scan_request.filter_batches(batches)


def rows_to_batches(rows: Iterator[Row], scan_request: ScanRequest) -> Iterator[pa.RecordBatch]:
    """Rows as Arrow record batches with the columns that the request needs."""
    return to_record_batches(rows, scan_request.level, scan_request.needed_columns)


def _read_whole_files(task: ScanTask, scan_request: ScanRequest) -> Iterator[pa.RecordBatch]:
    for file in task.files:
        try:
            yield from read_batches(
                file, scan_request.level, scan_request.reader_options, columns=scan_request.needed_columns
            )
        except CaptureError as error:
            # A query may read many files: the error names the one that failed.
            raise CaptureError(f"{file}: {error}") from error


def _read_flows(task: ScanTask, scan_request: ScanRequest, cache: str | None) -> Iterator[pa.RecordBatch]:
    """Read flows of one file from that file, and flows that span several files through all files in order."""
    from kwire.capture import index

    assert task.flows is not None
    indexes = [index.open_index(file, cache=cache) for file in task.files]
    file_counts = Counter(key for file_index in indexes for key in task.flows.intersection(file_index.flow_numbers))
    spanning_flows = frozenset(key for key, count in file_counts.items() if count > 1)
    for file_index in indexes:
        file_flows = task.flows.intersection(file_index.flow_numbers) - spanning_flows
        yield from read_flow_batches(
            [file_index],
            file_flows,
            scan_request.level,
            scan_request.reader_options,
            columns=scan_request.needed_columns,
            issues=task.emits_issues,
        )
    if spanning_flows:
        yield from read_flow_batches(
            indexes,
            spanning_flows,
            scan_request.level,
            scan_request.reader_options,
            columns=scan_request.needed_columns,
            issues=False,
        )


def _read_host_share(task: ScanTask, scan_request: ScanRequest) -> Iterator[Row]:
    options, keys = scan_request.reader_options, KeyLog(scan_request.options.tls_keylog)
    series = open_series(scan_request.level, options, keys)
    number, count = task.hosts
    series.select_hosts(lambda host, other: host_partition(host, other, count) == number)
    files = (
        series.read_file(read_packets(file, keys, options.unpacked_size_max), name=file, issues=task.emits_issues)
        for file in task.files
    )
    outcomes = chain(chain.from_iterable(files), series.close())
    return read_series_rows(series, task.files[0], outcomes, scan_request.level, options)
