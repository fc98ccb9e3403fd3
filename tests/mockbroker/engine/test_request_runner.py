"""Handlers run, and their outcomes become answers, closed connections, or nothing."""

from __future__ import annotations

import msgspec
import pytest

from kwire import headers
from kwire.error_codes import ErrorCode
from kwire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from mockbroker.engine.active_request import ActiveRequest, Connection
from mockbroker.engine.context import ConnectionInfo, Context
from mockbroker.engine.dispatch import decode_request
from mockbroker.engine.journal_record import record_request
from mockbroker.engine.outcome import CloseConnection, NoReply, Outcome, Park, Reply, ReplyAndClose
from mockbroker.engine.output import Close, Send
from mockbroker.engine.request_runner import RequestRunner
from mockbroker.engine.routes import Route
from mockbroker.journal import Journal
from mockbroker.kafka_error import KafkaError
from tests.support.brokers.broker import Broker

_KEY, _VERSION, _NOW_MS = 16, 5, 1_000


class _Requests:
    """A runner, and a ListGroups request whose handler returns a chosen outcome, with one more frame behind it."""

    def __init__(self, outcome: Outcome | KafkaError) -> None:
        self.broker = Broker()
        self.journal = Journal()
        self.runner = RequestRunner(self.broker.core.state, self.journal, now_ms=_NOW_MS)
        frame = headers.encode_request(ListGroupsRequest(), _VERSION, 7, "client")
        incoming = decode_request(frame, self.broker.core.routes)
        incoming = msgspec.structs.replace(incoming, route=_RouteTo(outcome, incoming.route))
        connection = Connection(ConnectionInfo(1, 0, "127.0.0.1", 50_000, "PLAINTEXT", "User:ANONYMOUS"), is_busy=True)
        connection.waiting.append((b"next", 0, None))
        exchange = record_request(self.journal, connection.info, incoming, frame, (_NOW_MS, 0, len(frame)))
        self.request = ActiveRequest(connection, incoming, exchange)
        self.runner.run(self.request)

    @property
    def next_can_start(self) -> bool:
        """Whether the connection goes on with the frame behind the request."""
        return self.request.connection in self.runner.ready and not self.request.connection.is_busy


class _RouteTo(Route):
    """The route of ListGroups with another handler."""

    def __init__(self, outcome: Outcome | KafkaError, route: Route) -> None:
        super().__init__(route.api_key, route.name, route.handler_path, route.versions, None)
        self.__dict__["handler"] = lambda request, ctx: self._handle(outcome)

    def _handle(self, outcome: Outcome | KafkaError) -> Outcome:
        if isinstance(outcome, KafkaError):
            raise outcome
        return outcome


def _response(code: ErrorCode = ErrorCode.NONE) -> msgspec.Struct:
    return ListGroupsResponse(error_code=code)


@pytest.mark.parametrize(
    ("outcome", "code"),
    [(Reply(_response()), 0), (KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE), 15)],
)
def test_an_answer_or_a_refusal_is_sent_and_the_next_request_can_start(
    outcome: Outcome | KafkaError, code: int
) -> None:
    requests = _Requests(outcome)

    (sent,) = requests.runner.output
    assert isinstance(sent, Send)
    assert isinstance(sent.exchange.response, ListGroupsResponse)
    assert sent.exchange.response.error_code == code
    assert sent.exchange.answered_ms == _NOW_MS
    assert requests.next_can_start


def test_without_an_answer_nothing_is_sent_and_the_next_request_can_start() -> None:
    requests = _Requests(NoReply())

    assert requests.runner.output == []
    assert requests.next_can_start


@pytest.mark.parametrize(
    ("outcome", "kinds"), [(CloseConnection("why"), [Close]), (ReplyAndClose(_response(), "why"), [Send, Close])]
)
def test_a_closed_connection_drops_the_frames_behind_the_request(outcome: Outcome, kinds: list[type]) -> None:
    requests = _Requests(outcome)

    assert [type(output) for output in requests.runner.output] == kinds
    assert requests.request.exchange.closed == "why"
    assert not requests.request.connection.waiting
    assert not requests.next_can_start


def test_a_request_that_waits_is_continued_and_keeps_its_place() -> None:
    def answer(ctx: Context) -> Outcome:
        return Reply(_response())

    requests = _Requests(Park(deadline_ms=_NOW_MS + 500, wakes_on=(("key",),), resume=answer))
    before = list(requests.runner.output)
    (delayed,) = requests.runner.purgatory.requests_waiting_for(("key",))
    requests.runner.resume(delayed)

    assert before == []
    assert [type(output) for output in requests.runner.output] == [Send]
    assert requests.runner.purgatory.count == 0
    assert requests.next_can_start
