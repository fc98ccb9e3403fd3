"""The exchanges that decide a case: the last ones of its APIs, where an expectation names none itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.driver.failure import ClientError
from mockbroker.certify.expectations import ExpectationFailed, exchange_numbers
from mockbroker.cluster_methods.waiting import WaitTimeout
from mockbroker.journal import Exchange

#: How many exchanges decide where none is named.
DECIDING_MAX = 6
_Play = Callable[[CaseRun], None]


def decided_by(*apis: str) -> Callable[[_Play], _Play]:
    """Decorate a case function: what it finds without naming exchanges is decided by the last ones of these APIs."""

    def decorate(function: _Play) -> _Play:
        @wraps(function)
        def play(run: CaseRun) -> None:
            with _deciding(run, apis):
                function(run)

        return play

    return decorate


def last_exchanges(run: CaseRun, *apis: str) -> list[Exchange[Any, Any]]:
    """The last exchanges of these APIs; of any API if there is none of these."""
    sent = list(run.wire.requests())
    return ([each for each in sent if each.api_name in apis] or sent)[-DECIDING_MAX:]


@contextmanager
def _deciding(run: CaseRun, apis: tuple[str, ...]) -> Iterator[None]:
    try:
        yield
    except ExpectationFailed as failed:
        if failed.numbers:
            raise
        raise _with_numbers(run, apis, failed.expected, failed.seen) from failed
    except ClientError as error:
        if error.name == "LOCAL_UNSUPPORTED":
            raise
        raise _with_numbers(run, apis, "no error from the client", str(error)) from error
    except WaitTimeout as error:
        expected = str(error).partition("; seen instead:")[0].partition("; the last value was")[0]
        raise _with_numbers(run, apis, expected, error.seen or str(error)) from error
    except AssertionError as error:
        raise _with_numbers(run, apis, "the exchanges that the rule demands", str(error)) from error
    finally:
        if any(not lapse.numbers for lapse in run.lapses):
            numbers = exchange_numbers(last_exchanges(run, *apis))
            run.lapses = [lapse._replace(numbers=lapse.numbers or numbers) for lapse in run.lapses]


def _with_numbers(run: CaseRun, apis: tuple[str, ...], expected: str, seen: str) -> ExpectationFailed:
    return ExpectationFailed(expected, seen, exchange_numbers(last_exchanges(run, *apis)))
