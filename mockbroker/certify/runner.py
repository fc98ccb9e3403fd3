"""Plays all cases with all drivers, in several jobs: each a thread with a driver process and a cluster of its own."""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from mockbroker.certify.case import Case
from mockbroker.certify.driver.failure import DriverFailure
from mockbroker.certify.driver.messages import HelloResult
from mockbroker.certify.driver.process import DriverProcess
from mockbroker.certify.play import PlayOptions, missing_needs, play_case
from mockbroker.certify.results import DriverRecord, ResultRecord, worst_result
from mockbroker.certify.verdicts import Verdict


class Runner:
    """Plays cases. folder: of the results; on_result, on_note: called in any job's thread, one at a time.

    repeat: how often each case is played, with the same seed; the worst verdict counts.
    Drivers that cannot be started get an error in their record and no results; the others go on.
    """

    def __init__(
        self,
        commands: Sequence[str],
        cases: Sequence[Case],
        *,
        folder: Path,
        options: PlayOptions,
        repeat: int = 1,
    ) -> None:
        self.drivers = [DriverRecord(command=command) for command in commands]
        self.results: list[ResultRecord] = []
        self._cases = cases
        self._folder = folder
        self._options = options
        self._repeat = repeat
        self.on_result: Callable[[ResultRecord], None] = lambda _: None
        self.on_note: Callable[[str], None] = lambda _: None
        self._hellos: dict[int, HelloResult] = {}
        self._queue: deque[tuple[int, Case]] = deque()
        self._lock = threading.Lock()
        self._running: set[DriverProcess] = set()
        self._is_stopped = False
        self._error: BaseException | None = None

    def run(self, jobs: int) -> None:
        """Play everything in this many threads. Raises: what a thread raised; KeyboardInterrupt ends all drivers."""
        try:
            self._meet_drivers()
            self._queue.extend((number, case) for number in self._hellos for case in self._cases)
            threads = [threading.Thread(target=self._work, name=f"certify-{job}", daemon=True) for job in range(jobs)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            self._stop()
        if self._error is not None:
            raise self._error
        order = {case.id: number for number, case in enumerate(self._cases)}
        self.results.sort(key=lambda result: (result.driver, order[result.case]))

    def _meet_drivers(self) -> None:
        """Start each driver once, for its capabilities."""
        for number, record in enumerate(self.drivers):
            try:
                process, hello = self._start_driver(record.command)
            except DriverFailure as error:
                record.error = error.describe()
                self.on_note(f"driver {record.command!r}: {record.error}")
                continue
            self._hellos[number] = hello
            record.name, record.version, record.language = hello.name, hello.version, hello.language
            record.capabilities, record.settings = hello.capabilities, hello.settings
            self._close(process, record.label)

    def _work(self) -> None:
        """One job: the next case, until there is none."""
        process: DriverProcess | None = None
        current = -1
        try:
            while (item := self._next()) is not None:
                number, case = item
                if process is not None and (number != current or not process.is_usable):
                    self._close(process, self.drivers[current].label)
                    process = None
                current = number
                process = self._play(number, case, process)
        except BaseException as error:
            self._error = error
            self._is_stopped = True
        finally:
            if process is not None:
                self._close(process, self.drivers[current].label)

    def _next(self) -> tuple[int, Case] | None:
        with self._lock:
            return None if self._is_stopped or not self._queue else self._queue.popleft()

    def _play(self, number: int, case: Case, process: DriverProcess | None) -> DriverProcess | None:
        """Play a case as often as wanted. Returns: the driver process, if it can play another one."""
        results: list[ResultRecord] = []
        lacking = missing_needs(case, self._hellos[number])
        if lacking is not None:
            self._add(
                ResultRecord(driver=number, case=case.id, verdict=Verdict.UNIMPLEMENTED, duration_ms=0, seen=lacking)
            )
            return process
        while len(results) < self._repeat and not self._is_stopped:
            file = f"{case.id}.{len(results) + 1}" if results else case.id
            result, process = self._play_once(number, case, process, file)
            results.append(result)
            if process is not None and not process.is_usable:
                self._close(process, self.drivers[number].label)
                process = None
        if results:
            self._add(results[0] if self._repeat == 1 else worst_result(results))
        return process

    def _play_once(
        self, number: int, case: Case, process: DriverProcess | None, file: str
    ) -> tuple[ResultRecord, DriverProcess | None]:
        """Play a case once. file: the name of its files, without suffix. Returns: also the process, if it can go on."""
        hello, command = self._hellos[number], self.drivers[number].command
        if process is None:
            try:
                process, hello = self._start_driver(command)
            except DriverFailure as error:
                failed = ResultRecord(driver=number, case=case.id, verdict=Verdict.FAILED, duration_ms=0)
                failed.expected, failed.seen = "the driver starts", error.describe()
                return failed, None
        path = self._folder / "cases" / driver_folder(number, hello) / file
        path.parent.mkdir(parents=True, exist_ok=True)
        played = play_case(
            case,
            process,
            hello,
            options=self._options,
            path=path,
            start_driver=lambda: self._start_driver(command),
        )
        base = path.relative_to(self._folder).as_posix()
        result = ResultRecord(
            driver=number,
            case=case.id,
            verdict=played.verdict,
            duration_ms=played.duration_ms,
            expected=played.expected,
            seen=played.seen,
            notes=played.notes,
            deciding=played.deciding,
            details=f"{base}.json",
            log=f"{base}.log",
            capture=f"{base}.pcapng" if played.has_capture else None,
        )
        if played.is_reusable and played.verdict is Verdict.OK:
            return result, process
        process.kill()
        self._forget(process)
        return result, None

    def _add(self, result: ResultRecord) -> None:
        with self._lock:
            self.results.append(result)
            self.on_result(result)

    def _start_driver(self, command: str) -> tuple[DriverProcess, HelloResult]:
        process = DriverProcess(command)
        with self._lock:
            self._running.add(process)
        try:
            return process, process.hello()
        except DriverFailure:
            process.kill()
            raise

    def _close(self, process: DriverProcess, label: str) -> None:
        problem = process.close()
        self._forget(process)
        with self._lock:
            if problem is not None:
                self.on_note(f"driver {label}: {problem}")

    def _forget(self, process: DriverProcess) -> None:
        with self._lock:
            self._running.discard(process)

    def _stop(self) -> None:
        """End what still runs, after an error or an interrupt."""
        self._is_stopped = True
        with self._lock:
            running = list(self._running)
        for process in running:
            process.kill("the run was ended")


def driver_folder(number: int, hello: HelloResult) -> str:
    """The name of the folder of a driver's files: its number, name and version."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", f"{number}-{hello.name}-{hello.version}")[:80]
