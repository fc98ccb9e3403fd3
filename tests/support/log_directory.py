"""A log directory that a real Kafka 4.4.0 wrote, unpacked for a test.

Made by one broker and controller: `plain` (two partitions, an idempotent producer, four segments each), `codec-*` (one
of each compression), `txn` (six transactions, two aborted, one open), `compacted` (cleaned once), a committed offset of
group `g1`; then a clean shutdown.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

ARCHIVE = Path(__file__).parents[1] / "golden" / "log-directory-4.4.0.tar.gz"


def unpack_kafka_directory(target: Path) -> Path:
    """Unpack below a folder; returns the log directory."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(target, filter="data")
    return target / "data"
