"""The indexes that are made of a segment's batches are those that Kafka wrote."""

from __future__ import annotations

from pathlib import Path

from mockbroker.log_directory.batch_scan import scan_batches
from mockbroker.log_directory.disk_files import DiskFiles
from mockbroker.log_directory.formats import indexes, names
from mockbroker.log_directory.segment_index import SegmentIndex
from tests.support.log_directory import unpack_kafka_directory


def test_indexes_of_all_segments_have_the_bytes_of_kafka(tmp_path: Path) -> None:
    directory = unpack_kafka_directory(tmp_path)
    files = DiskFiles(directory)
    compared = 0
    for path in sorted(directory.glob("[!_]*-*/*.log")):
        parsed = names.parse_file_name(path.name)
        assert parsed is not None
        base_offset = parsed[0]
        index = SegmentIndex(base_offset, 4096)
        file = files.open_file(str(path.relative_to(directory)))
        for position, batch in scan_batches(file, path.name, first_offset=base_offset):
            index.add_batch(position, batch.size, batch.last_offset, batch.max_timestamp)
        file.close()
        index.finish()
        assert indexes.write_offset_index(index.offset_entries, base_offset) == path.with_suffix(".index").read_bytes()
        times = indexes.write_time_index(index.time_entries, base_offset)
        if path.parent.name != "compacted-0":
            assert times == path.with_suffix(".timeindex").read_bytes()
        compared += len(times)
    assert compared > 200
