"""`mockbroker certify --check-driver`: what is wrong with a driver, as lines for its author."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mockbroker.certify.driver.failure import DriverFailure
from mockbroker.certify.driver.process import DriverProcess


class CheckLine(NamedTuple):
    """A line of the check."""

    text: str
    is_problem: bool = False


def check_driver(command: str) -> Iterator[CheckLine]:
    """Start a driver, and check its first answer and its end."""
    try:
        process = DriverProcess(command)
        hello = process.hello()
    except DriverFailure as error:
        yield CheckLine(f"{command}: {error.describe()}", is_problem=True)
        return
    yield CheckLine(f"hello: {hello.name} {hello.version} ({hello.language}), {len(hello.capabilities)} capabilities")
    problem = process.close()
    yield CheckLine(f"end: {problem or 'the driver ends with its stdin'}", is_problem=problem is not None)
