"""Levels of captures in Parquet files, and the processes that write them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from kwire.capture.model import CaptureError
from kwire.report import level_files
from kwire.report.level_files import DecodeWorkers, LevelFiles, end_decoding
from kwire.report.level_jobs import LevelJob
from tests.support.captures.capture_files import CAPTURES


def test_a_file_that_is_no_capture_is_an_error_that_names_it(tmp_path: Path) -> None:
    file = tmp_path / "notes.pcap"
    file.write_bytes(b"no capture, but some text")
    files = LevelFiles()

    with pytest.raises(CaptureError, match=r"notes\.pcap"):
        files.decode([str(file)], {"messages": {"level": "messages"}}, edition="4.4")

    files.close()
    assert not files.folder.exists()


def test_a_process_that_ends_is_an_error_that_names_its_job(tmp_path: Path) -> None:
    workers = DecodeWorkers(1)
    missing = str(tmp_path / "missing" / "rows.parquet")
    job = LevelJob(str(CAPTURES / "small_share.pcap"), str(tmp_path), {"level": "flows"}, {}, missing)

    with pytest.raises(RuntimeError, match=r"ended with code 1, in LevelJob.*rows.parquet"):
        workers.submit(job).result()

    workers.close()


def test_without_processes_every_further_job_fails_and_none_waits(tmp_path: Path) -> None:
    workers = DecodeWorkers(2)
    missing = str(tmp_path / "missing" / "rows.parquet")
    job = LevelJob(str(CAPTURES / "small_share.pcap"), str(tmp_path), {"level": "flows"}, {}, missing)

    futures = [workers.submit(job) for _ in range(6)]

    for future in futures:
        with pytest.raises(RuntimeError, match="ended with code 1"):
            future.result(60)
    workers.close()


def test_jobs_end_when_the_program_is_interrupted(tmp_path: Path) -> None:
    workers = DecodeWorkers(1)
    endless = tmp_path / "endless.pcap"
    os.mkfifo(endless)
    job = LevelJob(str(endless), str(tmp_path), {"level": "flows"}, {}, str(tmp_path / "rows"))
    running, waiting = workers.submit(job), workers.submit(job)

    end_decoding()

    with pytest.raises(RuntimeError, match="ended with code -15"):
        running.result(60)
    assert waiting.cancelled()
    workers.close()


def test_a_process_that_stands_still_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(level_files, "_END_TIMEOUT_S", 0.1)
    workers = DecodeWorkers(1)
    (process,) = workers._processes
    process.send_signal(signal.SIGSTOP)

    workers.close()

    # Linux ends a stopped process at SIGTERM if it does not handle it; others need SIGKILL.
    assert process.returncode in (-signal.SIGTERM, -signal.SIGKILL)


def test_modules_in_the_working_directory_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit(7)")
    monkeypatch.chdir(tmp_path)
    workers = DecodeWorkers(1)
    job = LevelJob(str(CAPTURES / "small_share.pcap"), str(tmp_path), {"level": "flows"}, {}, str(tmp_path / "rows"))

    assert workers.submit(job).result(60).rows > 0
    workers.close()
