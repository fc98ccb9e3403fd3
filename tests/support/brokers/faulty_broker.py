"""`FaultyBroker`: a cluster without sockets, with faults and with the bytes that it sends."""

from __future__ import annotations

from typing import Any

from mockbroker.engine.output import Close, HalfClose, Note, Output, Send, SendBytes, Unmute
from mockbroker.faults.control import FaultHandle, Faults
from mockbroker.faults.registry import FaultRegistry
from tests.support.brokers.share_members import ShareBroker


class FaultyBroker(ShareBroker):
    """Topics A and B with two partitions each; `outputs` has everything that was sent, in order."""

    def __init__(self, **options: Any) -> None:
        self.outputs: list[Output] = []
        super().__init__(**options)
        self.registry = FaultRegistry(self.core)
        self.faults = Faults(lambda action: action(self.registry))
        take_output = self.core.take_output

        def record_output() -> list[Output]:
            taken = take_output()
            self.outputs += taken
            return taken

        self.core.take_output = record_output  # type: ignore[method-assign]
        self.outputs.clear()

    def add(self, api: str | None = None, **options: object) -> FaultHandle:
        """Add a fault."""
        return self.faults.add(api, **options)

    def kinds(self) -> list[str]:
        """The kinds of all output since the last call."""
        taken, self.outputs = self.outputs, []
        names = {Send: "send", SendBytes: "bytes", Close: "close", HalfClose: "half-close", Note: "note"}
        return [names[type(output)] for output in taken if not isinstance(output, Unmute)]

    def sent_bytes(self) -> bytes:
        """The bytes of all output since the last call, as on one connection."""
        taken, self.outputs = self.outputs, []
        return b"".join(
            output.data if isinstance(output, SendBytes) else len(output.body).to_bytes(4, "big") + output.body
            for output in taken
            if isinstance(output, Send | SendBytes)
        )
