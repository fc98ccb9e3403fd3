"""Runs the checks of a driver, and says what is wrong in a line each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mockbroker.certify.case_cluster import security_settings
from mockbroker.certify.check.admin_checks import ADMIN_CHECKS, PROTOCOL_CHECKS
from mockbroker.certify.check.consumer_checks import CONSUMER_CHECKS
from mockbroker.certify.check.model import TOPIC, Check, CheckRun, Problem
from mockbroker.certify.check.producer_checks import PRODUCER_CHECKS
from mockbroker.certify.check.share_checks import SHARE_CHECKS
from mockbroker.certify.driver.clients import DriverClients
from mockbroker.certify.driver.failure import ClientError, DriverFailure
from mockbroker.certify.driver.messages import HelloResult
from mockbroker.certify.driver.process import DriverProcess
from mockbroker.certify.expectations import ExpectationFailed, Unsupported
from mockbroker.cluster import Cluster
from mockbroker.cluster_methods.waiting import WaitTimeout

CHECKS = (*PROTOCOL_CHECKS, *PRODUCER_CHECKS, *CONSUMER_CHECKS, *SHARE_CHECKS, *ADMIN_CHECKS)


class CheckLine(NamedTuple):
    """A line of the output. is_problem: whether the driver is wrong; None for a check that was left out."""

    name: str
    text: str
    is_problem: bool | None = False

    def __str__(self) -> str:
        word = {False: "ok", True: "WRONG", None: "left out"}[self.is_problem]
        return f"{word:<8} {self.name}{f': {self.text}' if self.text else ''}"


def check_driver(command: str) -> Iterator[CheckLine]:
    """Start a driver, and try each method of its capabilities against a cluster; a problem does not end the checks."""
    try:
        process, hello = _start(command)
    except DriverFailure as error:
        yield CheckLine("hello", error.describe(), is_problem=True)
        return
    try:
        yield CheckLine("hello", f"{hello.name} {hello.version} ({hello.language})")
        yield from _declared_lines(hello)
        for check in CHECKS:
            lacking = [name for name in check.needs if name not in hello.capabilities]
            if lacking:
                yield CheckLine(check.name, f"hello does not list {', '.join(lacking)}", is_problem=None)
                continue
            if not process.is_usable:
                process, hello = _start(command)
            problem = _run_check(check, process, hello)
            yield CheckLine(check.name, problem or "", is_problem=problem is not None)
        problem = process.close()
        yield CheckLine("end of stdin", problem or "", is_problem=problem is not None)
    except DriverFailure as error:
        yield CheckLine("hello", f"the driver does not start again: {error.describe()}", is_problem=True)
    finally:
        process.kill()


def _declared_lines(hello: HelloResult) -> Iterator[CheckLine]:
    """What hello should have in addition."""
    for name in ("name", "version", "language"):
        if not getattr(hello, name):
            yield CheckLine("hello", f"{name} is empty", is_problem=True)
    for name in ("bootstrap_servers", "client_id"):
        if name not in hello.settings:
            yield CheckLine("hello", f"the setting {name} is missing: every driver has it", is_problem=True)


def _start(command: str) -> tuple[DriverProcess, HelloResult]:
    process = DriverProcess(command)
    try:
        return process, process.hello()
    except DriverFailure:
        process.kill()
        raise


def _run_check(check: Check, process: DriverProcess, hello: HelloResult) -> str | None:
    """Try one check. Returns: what is wrong, or None."""
    with Cluster(topics={TOPIC: 2}, profile="quick", seed=1, **check.cluster) as cluster:
        defaults = {"bootstrap_servers": cluster.bootstrap_servers.split(","), **security_settings(cluster)}
        clients = DriverClients(process, hello, defaults, [])
        try:
            check.function(CheckRun(cluster, clients))
        except DriverFailure as error:
            return error.describe()
        except ClientError as error:
            return f"the client reports {error}"
        except (Problem, ExpectationFailed, WaitTimeout, Unsupported) as error:
            return str(error)
        finally:
            if cluster.has_faults:
                cluster.faults.clear()
            clients.close_clients()
    return None
