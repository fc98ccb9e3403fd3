"""Clients in a driver process: opens them with settings, records the calls, and closes what is left open."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar, Unpack

from mockbroker.certify.driver import messages as m
from mockbroker.certify.driver.failure import ClientError, DriverFailure
from mockbroker.certify.driver.handles import (
    CALL_TIMEOUT_MS,
    AdminHandle,
    ClientHandle,
    ConsumerHandle,
    ProducerHandle,
    ShareConsumerHandle,
)
from mockbroker.certify.driver.process import DriverProcess, plain, wait_limit
from mockbroker.certify.driver.settings import (
    AdminSettings,
    ConsumerSettings,
    ProducerSettings,
    ShareConsumerSettings,
)
from mockbroker.certify.expectations import Unsupported

R = TypeVar("R", bound=m.Value)
H = TypeVar("H", bound=ClientHandle)

#: How long a client may take to close at the end of a case, milliseconds.
CLOSE_MS = 3_000


class RecordedCall(m.Value):
    """A call of the driver. at_ns, answered_ns: the wall clock; result, error: None while there is none."""

    at_ns: int
    answered_ns: int
    driver: int
    method: str
    params: Any
    result: Any = None
    error: Any = None


class DriverClients:
    """Opens clients in one driver process. number: of the process in the case, from 0.

    defaults: settings that every client gets. calls: to which the calls are added. time_factor: of the limits of waits.
    """

    def __init__(
        self,
        process: DriverProcess,
        hello: m.HelloResult,
        defaults: Mapping[str, Any],
        calls: list[RecordedCall],
        *,
        number: int = 0,
        time_factor: float = 1.0,
    ) -> None:
        self.process = process
        self.hello = hello
        self.number = number
        self.time_factor = time_factor
        #: The calls that have no answer yet, with the time of their start by the monotonic clock.
        self.open_calls: dict[str, float] = {}
        self._defaults = dict(defaults)
        self._calls = calls
        self._handles: dict[str, ClientHandle] = {}

    def producer(self, name: str | None = None, **settings: Unpack[ProducerSettings]) -> ProducerHandle:
        """Open a producer. name: also its `client_id`. Raises: Unsupported, ClientError, DriverFailure."""
        return self._open("producer", ProducerHandle, name, settings)

    def acked_producer(self, name: str | None = None, **settings: Unpack[ProducerSettings]) -> ProducerHandle:
        """Open a producer with acks=all where its driver has the setting: not all clients wait for answers by default.

        Raises: as `producer`.
        """
        acks: ProducerSettings = {"acks": "all"} if "acks" in self.hello.settings else {}
        given: ProducerSettings = {**acks, **settings}
        return self.producer(name, **given)

    def consumer(self, name: str | None = None, **settings: Unpack[ConsumerSettings]) -> ConsumerHandle:
        """Open a consumer. Raises: as `producer`."""
        return self._open("consumer", ConsumerHandle, name, settings)

    def share_consumer(self, name: str | None = None, **settings: Unpack[ShareConsumerSettings]) -> ShareConsumerHandle:
        """Open a share consumer. Raises: as `producer`."""
        return self._open("share_consumer", ShareConsumerHandle, name, settings)

    def admin(self, name: str | None = None, **settings: Unpack[AdminSettings]) -> AdminHandle:
        """Open an admin client. Raises: as `producer`."""
        return self._open("admin", AdminHandle, name, settings)

    def kill(self) -> None:
        """End the process at once, as a crash of the application: its clients do not close anything."""
        self._handles.clear()
        self.process.kill()

    def close_clients(self) -> bool:
        """Close the clients that are open. Returns: whether all closed, so that the process can be used again."""
        for handle in list(self._handles.values()):
            if not handle.is_open or not self.process.is_usable:
                continue
            with suppress(ClientError, DriverFailure):
                handle.close(timeout_ms=CLOSE_MS)
        return self.process.is_usable

    def call(self, method: str, params: m.Value, result_type: type[R], timeout_ms: int) -> R:
        """Call the driver, and record the call. Raises: ClientError, DriverFailure."""
        at_ns, result, error = time.time_ns(), None, None
        title = f"{method} of {getattr(params, 'client', 'the driver')}"
        self.open_calls[title] = time.monotonic()
        try:
            answer = self.process.call(method, params, result_type, wait_s=wait_limit(timeout_ms))
            result = plain(answer)
        except ClientError as raised:
            error = plain(raised.info)
            raise
        except DriverFailure as raised:
            error = {"name": "DRIVER", "message": str(raised)}
            raise
        finally:
            self.open_calls.pop(title, None)
            self._calls.append(
                RecordedCall(
                    at_ns=at_ns,
                    answered_ns=time.time_ns(),
                    driver=self.number,
                    method=method,
                    params=plain(params),
                    result=result,
                    error=error,
                )
            )
        return answer

    def _open(
        self,
        kind: m.ClientKind,
        make: Callable[[str, Callable[..., Any]], H],
        name: str | None,
        settings: Mapping[str, Any],
    ) -> H:
        chosen = name or self._free_name(kind)
        supported = {"bootstrap_servers", "client_id", *self.hello.settings}
        missing = sorted(set(settings) - supported)
        if missing:
            raise Unsupported(f"the driver does not support the setting {', '.join(missing)}")
        if chosen in self._handles:
            raise ValueError(f"client {chosen!r} is open already")
        given = {**self._defaults, "client_id": chosen, **settings}
        params = m.OpenParams(client=chosen, kind=kind, settings=given)
        self.call("open", params, m.Nothing, CALL_TIMEOUT_MS)
        handle = make(chosen, self.call)
        handle.time_factor = self.time_factor
        self._handles[chosen] = handle
        return handle

    def _free_name(self, kind: str) -> str:
        base = kind.replace("_", "-") if self.number == 0 else f"{kind.replace('_', '-')}-of-driver-{self.number}"
        number = sum(name == base or name.startswith(f"{base}-") for name in self._handles)
        return base if number == 0 else f"{base}-{number + 1}"
