"""`Worker`: a thread with a client that goes on while its broker is killed and started again."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Any

from confluent_kafka import KafkaError

#: A killed broker is back soon: clients connect again without long pauses.
_PATIENT = {
    "log_level": 0,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 50,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 50,
    "socket.timeout.ms": 10_000,
    "topic.metadata.refresh.interval.ms": 2_000,
}
#: Of producers that wait as long as the broker needs, on a busy machine too.
PRODUCER = {"enable.idempotence": True, "linger.ms": 1, "message.timeout.ms": 0}
#: How long the last acknowledgements may take.
FLUSH_S = 500.0
_END_S = 600.0


class Worker(ABC):
    """One client in a thread of its own, and what the broker has promised it.

    violations: broken promises that the client itself has seen.
    """

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.topic = topic
        self.violations: list[str] = []
        self._settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "error_cb": self._on_error,
            **_PATIENT,
        }
        self._stopped = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run_and_record, name=type(self).__name__, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end what it has begun."""
        self._stopped.set()

    def join(self) -> None:
        """Wait for its end. Raises: what ended it, or TimeoutError."""
        self._thread.join(_END_S)
        if self._thread.is_alive():
            raise TimeoutError(f"{type(self).__name__} did not end within {_END_S:.0f} s: {self.progress()}")
        if self._failure is not None:
            raise self._failure

    @abstractmethod
    def run(self) -> None:
        """Work until `is_stopping`, and finish what was begun."""

    @abstractmethod
    def progress(self) -> str:
        """What was promised until now, in a few words."""

    @property
    @abstractmethod
    def has_promises(self) -> bool:
        """Whether the broker has promised anything yet: without, nothing is tested."""

    @property
    def is_stopping(self) -> bool:
        """Whether it was asked to end."""
        return self._stopped.is_set()

    def pause(self, duration_s: float) -> None:
        """Let the broker have a moment; ends early when the worker is stopped."""
        self._stopped.wait(duration_s)

    def _on_error(self, error: KafkaError) -> None:
        """A client that has ended for good was promised otherwise; lost connections are no problem."""
        if error.fatal():
            self.violations.append(f"the client of {type(self).__name__} has ended: {error}")

    def _run_and_record(self) -> None:
        try:
            self.run()
        except BaseException as error:  # Raised again by `join`.
            self._failure = error
