"""Runs the checks of a driver, and says what is wrong in a line each."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
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


class Outcome(StrEnum):
    """What a check found. LACKS: the driver says that its client does not have something, which is not wrong."""

    OK = "ok"
    WRONG = "WRONG"
    LACKS = "lacks"
    LEFT_OUT = "left out"


class CheckLine(NamedTuple):
    """A line of the output. name: methods, or a part of the protocol."""

    name: str
    text: str
    outcome: Outcome = Outcome.OK

    def __str__(self) -> str:
        return f"{self.outcome:<8} {self.name}{f': {self.text}' if self.text else ''}"


def check_driver(command: str) -> Iterator[CheckLine]:
    """Start a driver, and try each method of its capabilities against a cluster; a problem does not end the checks."""
    try:
        process, hello = _start(command)
    except DriverFailure as error:
        yield CheckLine("hello", error.describe(), Outcome.WRONG)
        return
    try:
        yield CheckLine("hello", f"{hello.name} {hello.version} ({hello.language})")
        yield from _declared_lines(hello)
        for check in CHECKS:
            lacking = [name for name in check.needs if name not in hello.capabilities]
            if lacking:
                yield CheckLine(check.name, f"hello does not list {', '.join(lacking)}", Outcome.LEFT_OUT)
                continue
            if not process.is_usable:
                process, hello = _start(command)
            yield _run_check(check, process, hello)
        problem = process.close()
        yield CheckLine("end of stdin", problem or "", Outcome.OK if problem is None else Outcome.WRONG)
    except DriverFailure as error:
        yield CheckLine("hello", f"the driver does not start again: {error.describe()}", Outcome.WRONG)
    finally:
        process.kill()


def _declared_lines(hello: HelloResult) -> Iterator[CheckLine]:
    """What hello should have in addition."""
    for name in ("name", "version", "language"):
        if not getattr(hello, name):
            yield CheckLine("hello", f"{name} is empty", Outcome.WRONG)
    for name in ("bootstrap_servers", "client_id"):
        if name not in hello.settings:
            yield CheckLine("hello", f"the setting {name} is missing: every driver has it", Outcome.WRONG)


def _start(command: str) -> tuple[DriverProcess, HelloResult]:
    process = DriverProcess(command)
    try:
        return process, process.hello()
    except DriverFailure:
        process.kill()
        raise


def _run_check(check: Check, process: DriverProcess, hello: HelloResult) -> CheckLine:
    """Try one check."""
    process.log.clear()
    with Cluster(topics={TOPIC: 2}, profile="quick", seed=1, **check.cluster) as cluster:
        defaults = {"bootstrap_servers": cluster.bootstrap_servers.split(","), **security_settings(cluster)}
        clients = DriverClients(process, hello, defaults, [])
        notes: list[str] = []
        try:
            check.function(CheckRun(cluster, clients, notes))
        except DriverFailure as error:
            return CheckLine(check.name, error.describe(), Outcome.WRONG)
        except (Unsupported, ClientError) as error:
            return _judge_refusal(check, error)
        except (Problem, ExpectationFailed, WaitTimeout) as error:
            return CheckLine(check.name, str(error), Outcome.WRONG)
        finally:
            if cluster.has_faults:
                cluster.faults.clear()
            clients.close_clients()
    return CheckLine(check.name, "; ".join(notes))


def _judge_refusal(check: Check, error: Unsupported | ClientError) -> CheckLine:
    if isinstance(error, ClientError) and error.name != "LOCAL_UNSUPPORTED":
        return CheckLine(check.name, f"the client reports {error}", Outcome.WRONG)
    text = f"{error}; cases that need this are UNIMPLEMENTED, and the rest of this check was not tried"
    return CheckLine(check.name, text, Outcome.LACKS)
