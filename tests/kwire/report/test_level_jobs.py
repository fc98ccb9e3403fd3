"""Jobs that write levels of captures to Parquet files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kwire.capture.reader import read_table
from kwire.report.level_jobs import Answer, LevelJob, NamesJob, run_job
from tests.support.captures.capture_files import CAPTURES

CAPTURE = CAPTURES / "kafka_play.pcap"


@pytest.mark.parametrize("is_compressed", [False, True])
@pytest.mark.parametrize("level", ["messages", "partitions", "flows", "share_acks"])
def test_a_level_has_the_rows_of_the_reader(level: str, is_compressed: bool, tmp_path: Path) -> None:
    capture, output = CAPTURE, str(tmp_path / "rows.parquet")
    if is_compressed:
        capture = tmp_path / "copy.pcap.gz"
        capture.write_bytes(gzip.compress(CAPTURE.read_bytes()))
    names = run_job(NamesJob(str(capture), str(tmp_path), {}))

    answer = run_job(LevelJob(str(capture), str(tmp_path), {"level": level}, names.topics, output))

    expected = read_table([str(capture)], level)
    assert names.topics
    assert answer == Answer(rows=expected.num_rows)
    assert pq.read_table(output).cast(expected.schema) == expected


def test_a_level_without_rows_is_a_file_with_its_columns(tmp_path: Path) -> None:
    output = str(tmp_path / "rows.parquet")
    options = {"level": "messages", "columns": "api_name,req_ts", "filter": "api=DeleteTopics and client=nobody"}

    assert run_job(LevelJob(str(CAPTURE), str(tmp_path), options, {}, output)) == Answer(rows=0)
    assert pq.read_schema(output).names == ["api_name", "req_ts"]
    assert pq.read_schema(output).field("req_ts").type == pa.timestamp("us", tz="UTC")


def test_a_file_that_is_no_capture_is_an_answer_with_an_error(tmp_path: Path) -> None:
    job = LevelJob(__file__, str(tmp_path), {"level": "messages"}, {}, str(tmp_path / "rows.parquet"))

    assert Path(__file__).name in (run_job(job).error or "")
