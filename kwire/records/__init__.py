"""Record batches of logs, Produce requests and Fetch responses: magic 0, 1 and 2, with all compression codecs.

`read_batches` reads the headers of batches, `Batch.records()` decodes their records, `write_batch` writes a batch.
"""

from kwire.records.batch import Batch, patch_offset_and_epoch, with_append_time
from kwire.records.control import (
    ControlRecord,
    ControlType,
    ShareControlType,
    read_control,
    write_marker,
    write_share_control,
)
from kwire.records.legacy import LegacyBatch
from kwire.records.reader import parse_header, read_batches
from kwire.records.record import Codec, Header, Record, TimestampType
from kwire.records.writer import write_batch

__all__ = [
    "Batch",
    "Codec",
    "ControlRecord",
    "ControlType",
    "Header",
    "LegacyBatch",
    "Record",
    "ShareControlType",
    "TimestampType",
    "parse_header",
    "patch_offset_and_epoch",
    "read_batches",
    "read_control",
    "with_append_time",
    "write_batch",
    "write_marker",
    "write_share_control",
]
