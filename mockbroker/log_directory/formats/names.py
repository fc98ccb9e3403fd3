"""Names of folders and files: topic-partition, and the base offset of a segment in 20 digits with a suffix.

Source: Kafka's LogFileUtils and UnifiedLog.parseTopicPartitionName.
"""

from __future__ import annotations

import re

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
TRANSACTION_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
#: The index files of a segment, which can be built again from its log.
INDEXES = (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)
#: A file that is not yet in use, one that is about to replace others, and one that is not in use any more.
CLEANED = ".cleaned"
SWAP = ".swap"
DELETED = ".deleted"
#: A file that is being written, and will replace the one without this suffix.
TEMPORARY = ".tmp"

_SEGMENT_FILE = re.compile(r"(\d{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)")
_PARTITION_FOLDER = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9]\d{0,9})")


def file_name(base_offset: int, suffix: str) -> str:
    """The name of a file of the segment that begins at an offset."""
    return f"{base_offset:020d}{suffix}"


def parse_file_name(name: str) -> tuple[int, str] | None:
    """The base offset and the suffix; None for a name that is no file of a segment."""
    found = _SEGMENT_FILE.fullmatch(name)
    return None if found is None else (int(found[1]), found[2])


def folder_name(topic: str, partition_index: int) -> str:
    """The name of the folder of a partition."""
    return f"{topic}-{partition_index}"


def parse_folder_name(name: str) -> tuple[str, int] | None:
    """The topic and the partition; None for a name that is no folder of a partition."""
    found = _PARTITION_FOLDER.fullmatch(name)
    return None if found is None else (found[1], int(found[2]))
