"""Settings of all tests, and fixtures that tests of several packages share."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from collections.abc import Generator, Iterator

import hypothesis
import pytest

from mockbroker.engine.internal_errors import collect_internal_errors
from tests.support.spark.fixtures import chromium, describe_ended_jvm, spark

__all__ = ["chromium", "spark"]


# How long an example takes depends on the load of the machine, so it decides nothing.
hypothesis.settings.register_profile(
    "kwire", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow], print_blob=True
)
hypothesis.settings.load_profile("kwire")


def pytest_configure(config: pytest.Config) -> None:
    """Handle Ctrl-C and a hang-up where they are ignored, as in a background job of a shell or by a supervisor.

    Programs that a test starts inherit an ignored signal, and some tests send it to them; a handled one has its default
    there. A hang-up still does not end the tests.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while modules are imported and tests are made, and never look at these objects again.

    They are millions, and live as long as the process; each look at all of them takes a quarter of a second.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests for `--dist worksteal`, whose processes each begin with an equal part of the list.

    The first process begins with the tests with Spark, so that not each process starts a session; the second one with
    those of real clients, which wait longest.
    """
    with_spark = {item.path for item in items if "spark" in getattr(item, "fixturenames", ())}
    with_clients = {item.path for item in items if item.get_closest_marker("client")} - with_spark
    items.sort(key=lambda item: item.path not in with_spark)
    spark_count = sum(item.path in with_spark for item in items)
    part_size = len(items) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    clients = [item for item in items if item.path in with_clients]
    others = [item for item in items if item.path not in with_clients]
    start = max(spark_count, part_size)
    items[:] = [*others[:start], *clients, *others[start:]]


@pytest.fixture(autouse=True)
def forget_logged_lines() -> None:
    """Let no test see how many lines earlier tests of the process have logged, which limits those of this one."""
    module = sys.modules.get("mockbroker.log.repetitions")
    if module is not None:
        module.REPETITIONS.flush()


@pytest.fixture(autouse=True)
def keep_log_levels() -> Iterator[None]:
    """Fail a test that leaves the log of the process switched off, or with another level, for the tests after it."""
    before = _log_levels()
    yield
    assert _log_levels() == before


@pytest.fixture(autouse=True)
def internal_errors() -> Iterator[list[str]]:
    """The internal errors of clusters in this process: a test fails that does not take them from the list."""
    with collect_internal_errors() as found:
        yield found
    assert found == []


def _log_levels() -> tuple[int, int, int]:
    """What decides which lines of mockbroker are logged."""
    return logging.root.manager.disable, logging.root.level, logging.getLogger("mockbroker").level


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to the report of a failed test that the JVM of Spark has ended, which the exception does not say."""
    report = yield
    if report.failed and (ended := describe_ended_jvm()) is not None:
        report.sections.append(("Spark", ended))
    return report
