"""The aborted transactions that a Fetch response names beside the batches that were read."""

from __future__ import annotations

from mockbroker.state.storage.partition_log import PartitionLog
from mockbroker.state.storage.producers import AbortedTransaction
from mockbroker.state.storage.stored_batch import LogSlice


def list_aborted_in_read(log: PartitionLog, offset: int, read: LogSlice) -> list[AbortedTransaction]:
    """Aborted transactions that are sent with the batches read from an offset on.

    They are listed up to the next entry of the offset index, else to the end of the segment. Source: Kafka's
    LocalLog.addAbortedTransactions.
    """
    first, end = read.batches[0].base_offset, read.batches[-1].last_offset + 1
    if read.cut_batch is not None:
        end = read.cut_batch.base_offset + 1
    upper = log.storage.last_of_next_indexed(first, end)
    if upper is None:
        upper = log.segments.segment_end(first) or log.end_offset
    return log.aborted_transactions(offset, upper)
