"""The process of a driver: one request at a time over its stdin and stdout, everything bounded, always ended."""

from __future__ import annotations

import os
import queue
import shlex
import subprocess
import threading
from contextlib import suppress
from typing import IO, Any, TypeVar, cast

import msgspec

from mockbroker.certify.driver.failure import ClientError, DriverFailure
from mockbroker.certify.driver.log import DriverLog
from mockbroker.certify.driver.messages import Answer, HelloParams, HelloResult, Nothing, Request, Value
from mockbroker.certify.driver.methods import METHODS, RESULT_DECODERS
from mockbroker.certify.driver.names import CAPABILITIES, PROTOCOL_VERSION
from mockbroker.certify.driver.process_group import MARK, create_mark, kill_group, kill_marked
from mockbroker.certify.driver.settings import SETTINGS

R = TypeVar("R", bound=Value)

#: The longest line of the protocol, bytes.
LINE_BYTES_MAX = 1024 * 1024
#: How many lines may wait to be read; a driver that writes more was not asked for them.
LINES_MAX = 16
#: What a driver has in addition to the time of the call itself, seconds.
GRACE_S = 10.0
#: How long the first answer may take, as a JVM needs on a busy machine, seconds.
HELLO_S = 30.0
#: How long a driver may take to end after the end of its stdin, seconds.
END_S = 5.0
_SHOWN_MAX = 200

_ENCODER = msgspec.json.Encoder()
_ANSWERS = msgspec.json.Decoder(Answer)


class DriverProcess:
    """Starts a driver, and calls its methods. Calls from several threads wait for each other.

    command: a command line, split as a shell does. After a DriverFailure the process is ended, and calls fail.
    """

    def __init__(self, command: str) -> None:
        self.command = command
        self.log = DriverLog()
        self._mark = create_mark()
        self._lock = threading.Lock()
        self._lines: queue.Queue[bytes | None] = queue.Queue(LINES_MAX)
        self._last_id = 0
        self._failure: DriverFailure | None = None
        self._ending = threading.Lock()
        self._has_ended = False
        try:
            words = shlex.split(command)
            if not words:
                raise DriverFailure("the driver's command is empty")
            self._process = subprocess.Popen(  # noqa: S603 - the user gives the command.
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                env={**os.environ, MARK: self._mark},
            )
        except (OSError, ValueError) as error:
            raise DriverFailure(f"the driver {command!r} cannot be started: {error}") from error
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._stdin = cast("IO[bytes]", self._process.stdin)
        self._threads = [
            threading.Thread(target=self._read_lines, args=(self._process.stdout,), name="driver-stdout", daemon=True),
            threading.Thread(target=self._read_log, args=(self._process.stderr,), name="driver-stderr", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def is_usable(self) -> bool:
        """Whether calls are possible."""
        return self._failure is None and self._process.poll() is None

    @property
    def process_id(self) -> int:
        """The process id, which is also the id of its group."""
        return self._process.pid

    def hello(self) -> HelloResult:
        """The first call. Raises: DriverFailure, also for another version of the protocol and unknown names."""
        try:
            result = self.call("hello", HelloParams(protocol=PROTOCOL_VERSION), HelloResult, wait_s=HELLO_S)
        except ClientError as error:
            raise self._fail(f"the driver refuses hello with protocol {PROTOCOL_VERSION}: {error.info}") from error
        if result.protocol != PROTOCOL_VERSION:
            raise self._fail(
                f"the driver speaks version {result.protocol} of the driver protocol; "
                f"this command speaks version {PROTOCOL_VERSION}"
            )
        for kind, names, known in (
            ("capability", result.capabilities, CAPABILITIES),
            ("setting", result.settings, SETTINGS),
        ):
            unknown = sorted(set(names) - known)
            if unknown:
                raise self._fail(f"hello: unknown {kind} {', '.join(map(repr, unknown))}")
        return result

    def call(self, method: str, params: Value, result_type: type[R], *, wait_s: float) -> R:
        """Call a method and wait for its answer. Raises: ClientError; DriverFailure, after which the process is ended.

        wait_s: the limit, in seconds.
        """
        assert METHODS[method].result is result_type
        answer = self._exchange(method, params, wait_s)
        if isinstance(answer.result, msgspec.Raw):
            try:
                return cast("R", RESULT_DECODERS[method].decode(answer.result))
            except msgspec.DecodeError as error:
                raise self._fail(f"{method}: wrong result: {error}: {_shorten(bytes(answer.result))}") from error
        assert not isinstance(answer.error, msgspec.UnsetType)
        raise ClientError(method, answer.error)

    def call_unknown(self, method: str) -> str:
        """Call a method that the protocol does not have. Returns: the name of the error, or "a result"."""
        answer = self._exchange(method, Nothing(), GRACE_S)
        return "a result" if isinstance(answer.error, msgspec.UnsetType) else answer.error.name

    def _exchange(self, method: str, params: Value, wait_s: float) -> Answer:
        """Send a request, and read its answer."""
        with self._lock:
            if self._failure is not None:
                raise DriverFailure(str(self._failure), self._failure.output)
            self._refuse_unasked()
            self._last_id += 1
            self._write(method, params)
            return self._read_answer(method, wait_s)

    def _refuse_unasked(self) -> None:
        with suppress(queue.Empty):
            line = self._lines.get_nowait()
            raise self._fail_line("a line came without a request", line)

    def _write(self, method: str, params: Value) -> None:
        line = _ENCODER.encode(Request(id=self._last_id, method=method, params=params)) + b"\n"
        if len(line) > LINE_BYTES_MAX:
            raise ValueError(f"{method}: the request has {len(line)} bytes; the protocol allows {LINE_BYTES_MAX}")
        try:
            self._stdin.write(line)
            self._stdin.flush()
        except (OSError, ValueError) as error:
            raise self._fail_line(f"{method} could not be sent", None) from error

    def _read_answer(self, method: str, wait_s: float) -> Answer:
        try:
            line = self._lines.get(timeout=wait_s)
        except queue.Empty:
            raise self._fail(f"no answer to {method} within {wait_s:g} s") from None
        if line is None:
            raise self._fail_line(method, None)
        try:
            answer = _ANSWERS.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._fail_line(f"wrong answer to {method}: {error}", line) from error
        if answer.id != self._last_id:
            raise self._fail_line(f"an answer to request {answer.id}; expected one to {self._last_id} ({method})", line)
        return answer

    def _fail_line(self, message: str, line: bytes | None) -> DriverFailure:
        if line is not None:
            return self._fail(f"{message}: {_shorten(line)}")
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        code = self._process.returncode
        if code is None:
            return self._fail(f"{message}: the driver has closed its stdout")
        how = f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return self._fail(f"{message}: the driver {how}")

    def _fail(self, message: str) -> DriverFailure:
        """End the process. Returns: the failure, the first one if there is one already."""
        failure = self._failure = self._failure or DriverFailure(message)
        self.kill()
        failure.output = failure.output or self.log.last_lines()
        return failure

    def kill(self, reason: str = "") -> None:
        """End the driver and all that it started at once, as a crash would. reason: what later calls raise."""
        if self._failure is None:
            self._failure = DriverFailure(reason or "the driver was killed")
        with self._ending:
            if self._has_ended:
                return
            self._has_ended = True
            kill_group(self._process.pid)
            kill_marked(self._mark)
            self._process.wait()
        self._close_pipes()

    def close(self) -> str | None:
        """End the driver cleanly: close its stdin and wait. Returns: what it did wrong, or None."""
        if self._failure is not None:
            return None
        self._failure = DriverFailure("the driver was closed")
        with suppress(OSError):
            self._stdin.close()
        problem = None
        with self._ending:
            self._has_ended = True
            try:
                self._process.wait(END_S)
            except subprocess.TimeoutExpired:
                problem = f"the driver did not end within {END_S:g} s after the end of its stdin"
                kill_group(self._process.pid)
                self._process.wait()
            # The group exists as long as a process of it does, also after the driver itself.
            has_left = kill_group(self._process.pid)
            has_left = bool(kill_marked(self._mark)) or has_left
        if has_left and problem is None:
            problem = "the driver ended and left processes behind, which were killed"
        self._close_pipes()
        return problem

    def _close_pipes(self) -> None:
        """Wait for the threads; they end with the last process that has the pipes."""
        with suppress(OSError):
            self._stdin.close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(1.0)

    def _read_lines(self, stdout: IO[bytes]) -> None:
        with stdout:
            while line := stdout.readline(LINE_BYTES_MAX + 1):
                if len(line) > LINE_BYTES_MAX:
                    self._fail(f"a line is longer than {LINE_BYTES_MAX} bytes: {_shorten(line)}")
                    break
                try:
                    self._lines.put_nowait(line)
                except queue.Full:
                    self._fail(f"more than {LINES_MAX} lines came without a request, the last one: {_shorten(line)}")
                    break
        self._put_end()

    def _put_end(self) -> None:
        """Mark the end of the lines; with a flood, instead of its first line."""
        while True:
            try:
                self._lines.put_nowait(None)
            except queue.Full:
                with suppress(queue.Empty):
                    self._lines.get_nowait()
            else:
                return

    def _read_log(self, stderr: IO[bytes]) -> None:
        with stderr:
            while data := os.read(stderr.fileno(), 65536):
                self.log.append(data)


def wait_limit(timeout_ms: int) -> float:
    """How long an answer may take, seconds, to a call with this time limit."""
    return timeout_ms / 1000 + GRACE_S


def _shorten(line: bytes) -> str:
    text = line.decode("utf-8", "backslashreplace").rstrip("\n")
    return repr(text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "...")


def plain(value: Any) -> Any:
    """A value of the protocol as JSON values."""
    return msgspec.to_builtins(value)
