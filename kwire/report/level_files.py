"""The levels of local captures as Parquet files, which several processes of this machine decode side by side.

Spark's own workers would send each row through the JVM and its cache; a Parquet file is read column by column, as often
as needed, and decoding begins while Spark starts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from shutil import rmtree
from tempfile import TemporaryDirectory
from weakref import WeakSet

import msgspec
import pyarrow.parquet as pq

import kwire
from kwire.capture.model import CaptureError
from kwire.report.level_jobs import Answer, DeliveriesJob, Job, LevelJob, NamesJob, TimelineJob
from kwire.report.local_deliveries import DeliveryTables, count_records

# The most messages with share partitions whose timeline one process computes; it holds their events in memory.
TIMELINE_ROWS_MAX = 60_000
# The most records, delivered or acknowledged, whose deliveries one process computes: it uses about 300 bytes for each.
DELIVERED_RECORDS_MAX = 4_000_000
# The levels in the order of their cost, so that the process with the last job has a short one.
_BY_COST = ("flows", "details", "records", "messages", "partitions", "acks", "acquired")


class LevelFiles:
    """Parquet files of levels in a folder of their own, which `close` removes."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="kwire-report-")
        self._workers: DecodeWorkers | None = None
        self._timeline: Future[Answer] | None = None
        self._deliveries: Future[Answer] | None = None
        self.folder = Path(self._folder.name)

    def files_of(self, name: str) -> list[str]:
        """The files of a level, in the order of the captures. name: the field of `Levels`."""
        return sorted(map(str, (self.folder / name).iterdir()))

    def count_rows(self, name: str) -> int:
        """The number of rows of a level."""
        return sum(pq.read_metadata(file).num_rows for file in self.files_of(name))

    def timeline_file(self) -> str | None:
        """The file with the transitions of share partitions, when it is complete; None if there are too many."""
        return self._file_of_job(self._timeline, "timeline")

    def delivery_file(self, table: str) -> str | None:
        """The file of a table of `DeliveryTables`, when it is complete; None if there are too many records."""
        return self._file_of_job(self._deliveries, table)

    def _file_of_job(self, job: Future[Answer] | None, name: str) -> str | None:
        if job is None:
            return None
        answer = job.result()
        if answer.error is not None:
            raise CaptureError(answer.error)
        return self._result_file(name)

    def _result_file(self, name: str) -> str:
        return str(self.folder / f"{name}.parquet")

    def decode(self, files: Sequence[str], level_options: Mapping[str, dict[str, str]], *, edition: str) -> None:
        """Decode levels of captures; returns before the timeline and the deliveries are complete.

        Args: level_options: by the field of `Levels`, the options of `kafka_capture`. edition: of the captures.
        Raises: CaptureError that names the file that cannot be read.
        """
        index = self.folder / "index"
        index.mkdir()
        self._workers = workers = DecodeWorkers(min(os.cpu_count() or 1, len(files) * len(level_options)))
        texts = {name: text for name, text in level_options["messages"].items() if name not in ("level", "columns")}
        topics: dict[str, str] = {}
        for answer in workers.map([NamesJob(file, str(index), texts) for file in files]):
            # A file that is no capture has no names here; reading its rows raises the error.
            topics.update(answer.topics)
        jobs: list[LevelJob] = []
        for name in sorted(level_options, key=_BY_COST.index):
            (self.folder / name).mkdir()
            for number, file in enumerate(files):
                output = self.folder / name / f"{number:06}.parquet"
                jobs.append(LevelJob(file, str(index), level_options[name], topics, str(output)))
        for answer in workers.map(jobs):
            if answer.error is not None:
                raise CaptureError(answer.error)
        rmtree(index)
        if self.count_rows("details") <= TIMELINE_ROWS_MAX:
            job = TimelineJob(self.files_of("details"), self.files_of("flows"), edition, self._result_file("timeline"))
            self._timeline = workers.submit(job)
        ranges = {name: self.files_of(name) for name in ("acquired", "acks")}
        if sum(map(_count_delivered, ranges.values())) <= DELIVERED_RECORDS_MAX:
            outputs = {name: self._result_file(name) for name in DeliveryTables._fields}
            self._deliveries = workers.submit(DeliveriesJob(**ranges, outputs=outputs))

    def close(self) -> None:
        """End the processes and remove the files."""
        if self._workers is not None:
            self._workers.close()
        self._folder.cleanup()


def _count_delivered(files: list[str]) -> int:
    return count_records(pq.read_table(files, columns=["first_offset", "last_offset"]))


#: The workers of this process that were not closed.
_running: WeakSet[DecodeWorkers] = WeakSet()
#: How long a process may take to end that was terminated, seconds.
_END_TIMEOUT_S = 5.0


def end_decoding() -> None:
    """Let all jobs fail that threads of this process wait for: the program is interrupted."""
    for workers in list(_running):
        workers.end()


class DecodeWorkers:
    """Processes that run jobs of `level_jobs`."""

    def __init__(self, count: int) -> None:
        self._threads = ThreadPoolExecutor(count)
        self._processes = [_start_process() for _ in range(count)]
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        for process in self._processes:
            self._idle.put(process)
        _running.add(self)

    def submit(self, job: Job) -> Future[Answer]:
        """Have a process run a job."""
        return self._threads.submit(self._run, job)

    def map(self, jobs: Sequence[Job]) -> list[Answer]:
        """The answers to some jobs, in their order."""
        return list(self._threads.map(self._run, jobs))

    def close(self) -> None:
        """End the processes, and the jobs that they run."""
        self.end()
        for process in self._processes:
            try:
                process.communicate(timeout=_END_TIMEOUT_S)
            except subprocess.TimeoutExpired:  # It is stopped, or waits for a disk that does not answer.
                process.kill()
                process.communicate()

    def end(self) -> None:
        """Let the jobs that run or wait fail at once, from any thread; `close` still has to be called."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for process in self._processes:
            process.terminate()

    def _run(self, job: Job) -> Answer:
        process = self._idle.get()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(msgspec.json.encode(job) + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = b""
        finally:
            # Also one that has ended: otherwise the next jobs would wait for it for ever, instead of failing too.
            self._idle.put(process)
        if not line:
            raise RuntimeError(f"the process that decodes captures ended with code {process.wait()}, in {job}")
        return msgspec.json.decode(line, type=Answer)


def _start_process() -> subprocess.Popen[bytes]:
    root = str(Path(kwire.__file__).parent.parent)
    # A checkout is importable only through this process's sys.path, which a new one does not inherit.
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))}
    # -P: modules in the working directory of the user are not imported.
    command = [sys.executable, "-P", "-m", "kwire.report.level_jobs"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ)  # noqa: S603  Our own.
