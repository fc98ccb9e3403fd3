"""`AnswerSender`: puts answers into the output as faults change them: twice, in part, in pieces, or after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mockbroker.engine.output import Close, Send, SendBytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mockbroker.engine.active_request import ActiveRequest
    from mockbroker.engine.core import Core
    from mockbroker.faults.model import Then

_LENGTH_SIZE = 4


class AnswerSender:
    """The answers of one cluster that faults change; a connection goes on with its next request when one is sent."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._late: dict[int, list[Send | SendBytes]] = {}

    def has_late_answer(self, connection_id: int) -> bool:
        """Whether an answer of this connection waits for the next one."""
        return connection_id in self._late

    @property
    def is_idle(self) -> bool:
        """Whether no answer waits for another one."""
        return not self._late

    def send(self, request: ActiveRequest, body: bytes, actions: Sequence[Then]) -> None:
        """Send an answer, with the actions of the faults that matched its request."""
        core, number = self._core, request.connection.info.id
        core.requests.record_answer(request, (body,))
        prefix = next((then.length_prefix for then in actions if then.length_prefix is not None), None)
        if any(then.answer == "late" for then in actions):
            self._remove_closed()
            self._late.setdefault(number, []).append(_output(request, body, prefix))
            core.requests.finish_request(request)
            return
        kept = min((then.truncate for then in actions if then.truncate is not None), default=None)
        if kept is not None:
            core.requests.output.append(
                SendBytes(number, _frame(body, prefix)[: _LENGTH_SIZE + kept], request.exchange)
            )
            core.requests.output.append(Close(number, "fault: truncated response"))
            request.exchange.closed = f"fault: {kept} of {len(body)} bytes of the response were sent"
            request.connection.waiting.clear()
            request.connection.is_ending = True
            return
        copies = 2 if any(then.answer == "twice" for then in actions) else 1
        drip = next((then for then in actions if then.drip_bytes is not None), None)
        if drip is not None:
            self._send_part(request, _frame(body, prefix) * copies, drip, actions)
            return
        for _ in range(copies):
            core.requests.output.append(_output(request, body, prefix))
        self._finish(request, actions)

    def _send_part(self, request: ActiveRequest, data: bytes, drip: Then, actions: Sequence[Then]) -> None:
        """Send the next bytes, and schedule the rest."""
        core, number = self._core, request.connection.info.id
        assert drip.drip_bytes is not None
        if not core.is_connected(number):
            return
        core.requests.output.append(SendBytes(number, data[: drip.drip_bytes], request.exchange))
        rest = data[drip.drip_bytes :]
        if not rest:
            self._finish(request, actions)
            return
        core.state.inter_broker.schedule(
            drip.drip_ms, lambda _now_ms: self._send_part(request, rest, drip, actions), now_ms=core.now_ms
        )

    def _finish(self, request: ActiveRequest, actions: Sequence[Then]) -> None:
        """Continue with the next request, after the throttle time."""
        core, connection = self._core, request.connection
        for late in self._late.pop(connection.info.id, ()):
            core.requests.output.append(late)
        throttle_ms = max((then.throttle_ms or 0 for then in actions), default=0)
        core.requests.finish_request(request, at_least_ms=throttle_ms)

    def _remove_closed(self) -> None:
        for number in [number for number in self._late if not self._core.is_connected(number)]:
            del self._late[number]


def _output(request: ActiveRequest, body: bytes, prefix: int | None) -> Send | SendBytes:
    """A whole answer; prefix: instead of its length."""
    number, exchange = request.connection.info.id, request.exchange
    if prefix is None:
        return Send(number, (body,), exchange)
    return SendBytes(number, _frame(body, prefix), exchange)


def _frame(body: bytes, prefix: int | None) -> bytes:
    return (len(body) if prefix is None else prefix).to_bytes(_LENGTH_SIZE, "big", signed=True) + body
