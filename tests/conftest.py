"""Settings of all tests, and fixtures that tests of several packages share."""

from __future__ import annotations

import signal

import hypothesis
import pytest

from tests.support.spark.fixtures import chromium, spark

__all__ = ["chromium", "spark"]


# How long an example takes depends on the load of the machine, so it decides nothing.
hypothesis.settings.register_profile(
    "kwire", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow], print_blob=True
)
hypothesis.settings.load_profile("kwire")


def pytest_configure(config: pytest.Config) -> None:
    """Restore the handler of Ctrl-C where it is ignored, as in a background job of a shell or under a supervisor.

    Programs that a test starts inherit an ignored signal, and some tests send it to them.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
