"""Plays a script with a broker, step by step: the response to each request, whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kwire.client import ClientError
from kwire.errors import WireError
from tools.oracle.conversations.script_runner import ScriptRunner
from tools.oracle.conversations.virtual_broker import Broker
from tools.oracle.fuzz.comparison import UNANSWERED

Json = Any

#: A request without a response in this time counts as unanswered, in both brokers.
RESPONSE_TIMEOUT_MS = 5_000
_ATTEMPTS = 3
#: A broker that takes longer for a topic has stopped to apply changes.
_SETUP_MS_MAX = 10_000

CLOSED = {"closed": True}


def play(
    broker: Broker,
    script: Mapping[str, Json],
    *,
    on_step: Callable[[int], None] = lambda index: None,
    saved: dict[int, dict[str, Json]] | None = None,
) -> dict[int, Json]:
    """The normalized responses by the index of their step; the play ends with a request that is not answered.

    A request that cannot be encoded has the response {"invalid": reason}. on_step: is called before each step. saved:
    takes the values that each step has saved.
    Raises: ClientError when the broker cannot be connected, or no longer makes topics available.
    """
    runner = _start_runner(broker, script)
    answers: dict[int, Json] = {}
    for index, step in enumerate(script["steps"]):
        count, started_ms = len(runner.responses), broker.now_ms()
        on_step(index)
        try:
            runner.run_step(step)
        except TimeoutError:
            answers[index] = UNANSWERED
            break
        except ClientError:
            runner.close()
            answers[index] = CLOSED
        except (WireError, LookupError, TypeError) as error:
            answers[index] = {"invalid": f"{type(error).__name__}: {error}"}
        if saved is not None:
            names = _saving_step(script["steps"], index).get("save", ())
            saved[index] = {name: runner.variables.get(name) for name in names}
        if len(runner.responses) > count:
            answers[index] = runner.responses[-1]
        if step.get("setup") and broker.now_ms() - started_ms > _SETUP_MS_MAX:
            raise ClientError(f"step {index} of the setup: its condition was not met within {_SETUP_MS_MAX} ms")
    runner.close()
    return answers


def _saving_step(steps: Sequence[Mapping[str, Json]], index: int) -> Mapping[str, Json]:
    """The step whose response a step takes: an earlier one if it awaits that."""
    connection = steps[index].get("await")
    before = (step for step in reversed(steps[:index]) if step.get("async") and step["conn"] == connection)
    return next(before, steps[index])


def _start_runner(broker: Broker, script: Mapping[str, Json]) -> ScriptRunner:
    """A runner whose first connection is open; a real broker resets some that are opened while it is busy."""
    for attempt in range(1, _ATTEMPTS + 1):
        runner = ScriptRunner(broker, script)
        try:
            runner.read_nodes()
        except ClientError:
            if attempt == _ATTEMPTS:
                raise
        else:
            break
    return runner
