"""Stop requests by signals and by a time limit."""

from __future__ import annotations

import signal

import pytest

from kwire.cli.interrupt import StopSignal


def test_the_first_signal_requests_a_stop_and_the_second_interrupts() -> None:
    with StopSignal() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.is_requested
        assert stop.wait_for(lambda: "never") is None
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_signal_interrupts_waiting() -> None:
    previous_handler = signal.getsignal(signal.SIGINT)
    with StopSignal() as stop:
        assert stop.wait_for(lambda: signal.raise_signal(signal.SIGTERM)) is None
        assert stop.was_signalled
    assert signal.getsignal(signal.SIGINT) is previous_handler


def test_a_stop_is_requested_after_the_time_limit() -> None:
    assert StopSignal(seconds=0).is_requested
    assert not StopSignal(seconds=1_000).is_requested
    assert StopSignal().seconds_left is None
