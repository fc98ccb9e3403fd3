"""Record batches: what lies in a log, in a Produce request and in a Fetch response. Magic 0, 1 and 2, all codecs.

`read_batches` finds batches and their headers, `Batch.records()` decodes them, `write_batch` makes new ones.
"""

from kwire.records.batch import Batch, place, with_append_time
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
    "place",
    "read_batches",
    "read_control",
    "with_append_time",
    "write_batch",
    "write_marker",
    "write_share_control",
]
