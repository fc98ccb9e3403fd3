"""Plays one case with one driver: cluster, clients, time limit, verdict, and the files of the result."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Timer
from typing import Any, NamedTuple

import msgspec

from mockbroker.certify.case import Case
from mockbroker.certify.case_broker import CaseBroker, OpenBroker
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.driver.failure import ClientError, DriverFailure
from mockbroker.certify.driver.messages import HelloResult
from mockbroker.certify.driver.process import DriverProcess
from mockbroker.certify.expectations import ExpectationFailed, NotExercised, Unsupported, exchange_numbers, last_of
from mockbroker.certify.recording import DECODED_MAX, decode_exchanges, record_calls, record_exchanges
from mockbroker.certify.results import Details
from mockbroker.certify.verdicts import UNMET, Verdict
from mockbroker.cluster_methods.waiting import WaitTimeout
from mockbroker.journal import Exchange
from mockbroker.kafka_error import KafkaError

#: Verdicts of which the capture is not needed.
_WITHOUT_CAPTURE = frozenset({Verdict.OK, Verdict.UNIMPLEMENTED})

#: What a case function raises without a defect of its own.
_NO_DEFECTS = (Unsupported, NotExercised, DriverFailure, AssertionError, ClientError, WaitTimeout)


class PlayOptions(NamedTuple):
    """What the cases of a run share. time_factor: of their time limits and waits."""

    open_broker: OpenBroker
    keep_captures: bool
    time_factor: float = 1.0


class Played(NamedTuple):
    """A case that was played. is_reusable: whether its driver process can play another case."""

    verdict: Verdict
    expected: str
    seen: str
    notes: list[str]
    deciding: tuple[int, ...]
    duration_ms: int
    is_reusable: bool
    has_capture: bool


class _Judged(NamedTuple):
    verdict: Verdict
    expected: str = ""
    seen: str = ""
    deciding: tuple[int, ...] = ()


def missing_needs(case: Case, hello: HelloResult) -> str | None:
    """What the driver lacks for a case, as a sentence, or None."""
    capabilities = [name for name in case.needs if name not in hello.capabilities]
    settings = [name for name in case.settings_needed if name not in hello.settings]
    texts = [f"capability {name}" for name in capabilities] + [f"setting {name}" for name in settings]
    return f"the driver lacks {', '.join(texts)}" if texts else None


def play_case(
    case: Case,
    process: DriverProcess,
    hello: HelloResult,
    *,
    options: PlayOptions,
    path: Path,
    start_driver: Callable[[], tuple[DriverProcess, HelloResult]],
) -> Played:
    """Play a case in a driver process. path: of the result's files, without suffix; it writes .json, .log and .pcapng.

    A cluster plan that is refused is a defect of the case. Raises: OSError, KafkaUnavailable without a cluster.
    """
    began = time.monotonic()
    capture = path.with_name(f"{path.name}.pcapng")
    process.log.clear()
    with ExitStack() as stack:
        try:
            broker = stack.enter_context(options.open_broker(case, capture))
        except (ValueError, TypeError, KafkaError) as error:
            capture.unlink(missing_ok=True)
            _write_files(path, Details(), process)
            return Played(*_defect(error)[:3], [], (), _elapsed_ms(began), is_reusable=True, has_capture=False)
        run = CaseRun(
            case,
            broker.wire,
            process,
            hello,
            defaults=broker.settings,
            produce=broker.produce,
            start_driver=start_driver,
            time_factor=options.time_factor,
        )
        clock_ms = broker.wire.run(lambda server: server.clock.now_ms())
        judged = _judge(case, run, broker, case.timeout_s * options.time_factor)
        is_reusable = _tidy_up(run, broker)
        exchanges = broker.wire.exchanges()
        topic_names = broker.wire.journal.topic_names
    deciding = _deciding(case, judged, exchanges)
    is_captured = options.keep_captures or judged.verdict not in _WITHOUT_CAPTURE
    records = record_exchanges(
        exchanges,
        topic_names=topic_names,
        started_ns=run.started_ns,
        clock_ms=clock_ms,
        capture=capture if is_captured else None,
    )
    if not is_captured:
        capture.unlink(missing_ok=True)
    details = Details(
        calls=record_calls(run.calls, run.started_ns),
        exchanges=records,
        decoded=decode_exchanges(exchanges, deciding),
    )
    _write_files(path, details, process)
    notes = [*run.notes, *(f"SHOULD: {lapse.expected}; seen: {lapse.seen}" for lapse in run.lapses)]
    return Played(*judged[:3], notes, deciding, _elapsed_ms(began), is_reusable, is_captured)


def _write_files(path: Path, details: Details, process: DriverProcess) -> None:
    path.with_name(f"{path.name}.json").write_bytes(msgspec.json.encode(details) + b"\n")
    path.with_name(f"{path.name}.log").write_text(process.log.text(), encoding="utf-8")


def _elapsed_ms(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


def _judge(case: Case, run: CaseRun, broker: CaseBroker, limit_s: float) -> _Judged:
    """Run the case's function, with its time limit."""
    limit = Timer(limit_s, run.stop)
    limit.daemon = True
    limit.start()
    try:
        case.function(run)
        if not run.is_timed_out:
            broker.check()
    except Exception as error:
        return _judge_error(case, run, error, limit_s)
    finally:
        limit.cancel()
    if (defect := _background_defect(run)) is not None:
        return defect
    if run.is_timed_out:
        return _timeout(limit_s, run)
    if run.lapses:
        lapse = run.lapses[0]
        return _Judged(Verdict.NON_STRICT, lapse.expected, lapse.seen, lapse.numbers)
    return _Judged(Verdict.OK)


def _judge_error(case: Case, run: CaseRun, error: Exception, limit_s: float) -> _Judged:
    """The verdict of what a case function raised.

    An error of a call in the background that is no result of the client comes first: for what would have come after
    it, the case waits in vain.
    """
    if run.is_timed_out:
        return _background_defect(run) or _timeout(limit_s, run)
    cause = next((each for each in run.background_errors if not _is_result(each)), error)
    match cause:
        case Unsupported() | ClientError(name="LOCAL_UNSUPPORTED"):
            return _Judged(Verdict.UNIMPLEMENTED, "", str(cause))
        case NotExercised():
            return _Judged(Verdict.NOT_EXERCISED, "", str(cause))
        case DriverFailure():
            return _Judged(Verdict.FAILED, "the driver answers", cause.describe())
        case AssertionError() | ClientError() | WaitTimeout():
            return _judge_unmet(UNMET[case.level], cause)
    return _defect(cause)


def _is_result(error: BaseException) -> bool:
    """Whether an error is about what the client did."""
    if isinstance(error, ClientError):
        return error.name != "LOCAL_UNSUPPORTED"
    return isinstance(error, AssertionError | WaitTimeout)


def _background_defect(run: CaseRun) -> _Judged | None:
    """The verdict of a call in the background that broke down by a defect of the case, None without one."""
    errors = (each for each in run.background_errors if not isinstance(each, _NO_DEFECTS))
    return next(map(_defect, errors), None)


def _defect(error: BaseException) -> _Judged:
    """The verdict of an error of the case: its message, which the console shows, and where it was raised."""
    message = "".join(traceback.format_exception_only(error))
    text = message + "".join(traceback.format_exception(error))
    return _Judged(Verdict.ERROR, "the case has no defect of its own", text)


def _judge_unmet(unmet: Verdict, error: AssertionError | ClientError | WaitTimeout) -> _Judged:
    """What was expected of the client and did not come."""
    match error:
        case ClientError():
            return _Judged(unmet, "no error from the client", str(error))
        case ExpectationFailed():
            return _Judged(unmet, error.expected, error.seen, error.numbers)
        case WaitTimeout():
            return _Judged(unmet, _expected_wait(str(error)), error.seen or str(error))
    return _Judged(unmet, "the exchanges that the rule demands", str(error))


def _timeout(limit_s: float, run: CaseRun) -> _Judged:
    return _Judged(Verdict.TIMEOUT, f"the case ends within {limit_s:g} s", run.position or "it did not")


def _deciding(case: Case, judged: _Judged, exchanges: Sequence[Exchange[Any, Any]]) -> tuple[int, ...]:
    """The exchanges that the case names; where it names none, the last ones of its APIs.

    Of a case without APIs those on which a fault acted, the first ones of many.
    """
    if judged.deciding or judged.verdict in _WITHOUT_CAPTURE:
        return judged.deciding
    if case.decided_by:
        return exchange_numbers(last_of(exchanges, case.decided_by))
    return tuple(exchange.number for exchange in exchanges if exchange.faults)[:DECODED_MAX]


def _expected_wait(text: str) -> str:
    """The part of the message of a WaitTimeout that names what was waited for."""
    return text.partition("; seen instead:")[0].partition("; the last value was")[0]


def _tidy_up(run: CaseRun, broker: CaseBroker) -> bool:
    """Close the clients against a cluster without faults. Returns: whether the driver can be used again."""
    if run.is_timed_out:
        run.end()
        return False
    broker.settle()
    return run.end()
