"""What a test waits for at a fault that holds requests: a number of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mockbroker.faults.control import held_requests

if TYPE_CHECKING:
    from mockbroker.faults.control import FaultHandle
    from mockbroker.server import Server


class HeldWait:
    """Waits until a fault holds this many requests.

    Raises: ValueError for a number below 1, and for a fault that acts on no requests.
    """

    def __init__(self, fault: FaultHandle, count: int) -> None:
        if count < 1:
            raise ValueError(f"count={count}; expected at least one")
        self._name = fault.name
        self._held = held_requests(fault._active)
        self._count = count

    def check(self, server: Server) -> int | None:
        """How many it holds, once there are enough."""
        count = self._held.count
        return count if count >= self._count else None

    def expected(self) -> str:
        """What is waited for."""
        return f"{self._count} request{'' if self._count == 1 else 's'} held by the fault {self._name!r}"

    def seen(self, server: Server) -> str:
        """How many it holds."""
        return f"{self._held.count}" if self._held.is_on else f"{self._held.count}, and it does not hold requests now"
