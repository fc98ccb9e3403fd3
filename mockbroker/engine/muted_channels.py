"""`MutedChannels`: connections whose next request has to wait until a throttle time is over (KIP-219)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mockbroker.engine.output import Unmute

if TYPE_CHECKING:
    from mockbroker.broker.node import Node
    from mockbroker.cluster_services.inter_broker import InterBrokerChannel
    from mockbroker.engine.active_request import Connection
    from mockbroker.engine.output import Output


class MutedChannels:
    """The muted connections of a cluster. A muted one is busy: its frames wait, and are not read beyond a few.

    channel: schedules the end of each time. emit: adds to the output. finish: continues with the next request.
    """

    def __init__(
        self,
        channel: InterBrokerChannel[Node],
        *,
        emit: Callable[[Output], None],
        finish: Callable[[Connection], None],
    ) -> None:
        self._channel = channel
        self._emit = emit
        self._finish = finish
        self._until_ms: dict[int, tuple[Connection, int]] = {}

    def __contains__(self, connection_id: object) -> bool:
        return connection_id in self._until_ms

    def __bool__(self) -> bool:
        return bool(self._until_ms)

    def mute(self, connection: Connection, duration_ms: int, *, now_ms: int) -> None:
        """Handle no request of a connection for so many milliseconds; its answer has left."""
        number = connection.info.id
        connection.is_busy = True
        self._until_ms[number] = connection, now_ms + duration_ms
        self._channel.schedule(
            duration_ms, lambda _at_ms: self._unmute(number), now_ms=now_ms, owner=connection.info.node_id
        )

    def _unmute(self, number: int) -> None:
        muted = self._until_ms.pop(number, None)
        if muted is not None:
            self._emit(Unmute(number))
            self._finish(muted[0])

    def forget(self, connection_id: int) -> None:
        """The connection has ended."""
        self._until_ms.pop(connection_id, None)

    def next_awaited_ms(self) -> int | None:
        """The earliest end of a time behind which a request waits, or None."""
        return min((until_ms for connection, until_ms in self._until_ms.values() if connection.waiting), default=None)
