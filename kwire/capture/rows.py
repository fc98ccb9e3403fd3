"""The `messages` level: one row for every exchange, and for everything that could not become one."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from kwire.capture import facts
from kwire.capture.exchange import Exchange
from kwire.capture.schemas import MESSAGES
from kwire.capture.talks import address
from kwire.capture.values import End, Foreign, Issue, Lost, Trouble
from kwire.capture.watching import Ended, Seen
from kwire.error_codes import name_of
from kwire.errors import WireError
from kwire.payload import PLACES, batches_of
from kwire.redact import MASK, shown

if TYPE_CHECKING:
    from kwire.capture.bodies import Message, Request, Response
    from kwire.capture.exchange import Client, Outcome
    from kwire.capture.options import Options
    from kwire.capture.sessions import Session
    from kwire.capture.topic_names import TopicNames
    from kwire.capture.values import Flow

Row = dict[str, object]

OK, NO_RESPONSE, NO_REQUEST = "ok", "no_response", "no_request"
TRUNCATED, GAP, UNDECODABLE = "truncated", "gap", "undecodable"
STATUSES = (OK, NO_RESPONSE, NO_REQUEST, TRUNCATED, GAP, UNDECODABLE)

_INT32_MAX = 2**31 - 1
_EMPTY: Row = {column.name: None for column in MESSAGES}
_LOST_STATUS = {"bad_length": UNDECODABLE, "tls": UNDECODABLE, "snaplen": TRUNCATED, "cut_length": TRUNCATED}
_TROUBLE_STATUS = {
    "file_truncated": TRUNCATED,
    "header_cut": TRUNCATED,
    "ip_fragment": GAP,
    "dropped": GAP,
    "interface": TRUNCATED,
}


class MessageRows:
    """Makes the rows of one capture."""

    def __init__(self, file: str, options: Options, names: TopicNames) -> None:
        """`file` is what the column of that name says."""
        self._file = file
        self._options = options
        self._names = names

    def rows(self, outcome: Outcome) -> list[Row]:
        """The row of any outcome."""
        if isinstance(outcome, Exchange):
            return [self.exchange(outcome)]
        if isinstance(outcome, Lost):
            return [self.lost(outcome)]
        if isinstance(outcome, Ended | Seen):
            return []
        return [self.foreign(outcome) if isinstance(outcome, Foreign) else self.trouble(outcome)]

    def exchange(self, exchange: Exchange) -> Row:
        """The row of a request, its response, or both."""
        request, response = exchange.request, exchange.response
        row = self._flow(exchange.flow, exchange.client)
        issues: list[Issue] = []
        if request is not None:
            self._request(row, request)
            issues += request.issues
        if response is not None:
            self._response(row, response, request)
            issues += response.issues
        if exchange.session is not None:
            self._session(row, exchange.session)
        for side in (request, response):
            if side is not None:
                issues += _record_issues(side)
        row["status"] = status_of(exchange)
        row["issues"] = [issue.as_dict() for issue in issues]
        return row

    def lost(self, lost: Lost) -> Row:
        """The row of a stretch that no frame could be read from."""
        row = self._flow(lost.flow)
        row["req_ts" if lost.is_request else "resp_ts"] = lost.ts
        row["status"] = status_of(lost)
        detail = f"{lost.detail}: {lost.missing} bytes missing, {lost.skipped} passed over until the next frame"
        side = "request" if lost.is_request else "response"
        row["issues"] = [Issue(lost.kind, side, "", lost.offset, detail).as_dict()]
        return row

    def foreign(self, foreign: Foreign) -> Row:
        """The row of a connection that is not plain Kafka."""
        row = self._flow(foreign.flow)
        row["req_ts"] = foreign.ts
        row["status"] = status_of(foreign)
        detail = f"{foreign.detail}; {foreign.size} bytes passed over"
        row["issues"] = [Issue(foreign.kind, "capture", "", None, detail).as_dict()]
        return row

    def trouble(self, trouble: Trouble) -> Row:
        """The row of what is wrong with the file, or with packets that belong to no connection."""
        row = dict(_EMPTY)
        row["file"], row["req_ts"] = self._file, trouble.ts
        row["status"] = status_of(trouble)
        row["issues"] = [Issue(trouble.kind, "capture", "", None, trouble.detail).as_dict()]
        return row

    def _flow(self, flow: Flow, client: Client | None = None) -> Row:
        row = dict(_EMPTY)
        side = flow.client_side
        (client_ip, client_port), (broker_ip, broker_port) = flow.ends[side], flow.ends[1 - side]
        row.update(
            file=self._file,
            client_ip=address(client_ip),
            client_port=client_port,
            broker_ip=address(broker_ip),
            broker_port=broker_port,
            stream_epoch=flow.epoch,
            link=flow.link,
            tls=flow.is_tls,
        )
        row["conn_id"] = conn_id(flow)
        if client is not None:
            row.update(
                software_name=client.software_name,
                software_version=client.software_version,
                principal=client.principal,
            )
        return row

    def _request(self, row: Row, request: Request) -> None:
        frame, body = request.frame, request.body
        row.update(
            api_key=request.api_key,
            api_name=request.api_name,
            api_version=request.api_version,
            header_version=request.header_version,
            correlation_id=request.correlation_id,
            client_id=request.client_id,
            req_packet=frame.packet or None,
            req_ts=frame.ts,
            req_end_ts=frame.end_ts,
            req_bytes=frame.size + 4,
            in_flight=request.in_flight,
        )
        if request.is_token:
            row["body_request"] = self._token(frame.data)
        if body is not None:
            row["group_id"], row["member_id"] = group_and_member(body)
            self._count(row, body)
            row["body_request"] = self._json(request)

    def _response(self, row: Row, response: Response, request: Request | None) -> None:
        frame, body = response.frame, response.body
        row.update(
            resp_packet=frame.packet or None,
            resp_ts=frame.ts,
            resp_end_ts=frame.end_ts,
            resp_bytes=frame.size + 4,
            transfer_us=(frame.end_ts - frame.ts) // 1000,
            order_ok=response.order_ok,
        )
        if request is None:
            row["correlation_id"] = response.correlation_id
        else:
            row["latency_us"] = (frame.ts - request.frame.end_ts) // 1000
            if request.is_token:
                row["body_response"] = self._token(frame.data)
        if body is not None:
            code = facts.error_code(body)
            row["error_code"], row["error_name"] = code, name_of(code)
            row["throttle_ms"] = getattr(body, "throttle_time_ms", None)
            row["member_id"] = row["member_id"] or getattr(body, "member_id", None) or None
            self._count(row, body)
            row["body_response"] = self._json(response)

    def _session(self, row: Row, session: Session) -> None:
        row["session_id"], row["session_epoch"] = session.id, session.epoch
        if session.partitions is not None:
            row["session_partitions"] = session.partitions.text(self._names)

    def _count(self, row: Row, body: msgspec.Struct) -> None:
        found = self._names.learn(body)
        if found and not row["n_topics"]:
            row["n_topics"] = len({topic.topic_id or topic.name for topic in found})
            row["n_partitions"] = min(sum(topic.partition_count for topic in found), _INT32_MAX)
        elif row["n_topics"] is None:
            row["n_topics"] = row["n_partitions"] = 0

    def _json(self, message: Message) -> str | None:
        if not self._options.bodies or message.body is None:
            return None
        tree = shown(
            message.body,
            message.version,
            show_secrets=self._options.show_secrets,
            payload=self._options.payload,
        )
        return msgspec.json.encode(tree).decode()

    def _token(self, token: bytes) -> str | None:
        if not self._options.bodies:
            return None
        tree = {"token": token if self._options.show_secrets else MASK}
        return msgspec.json.encode(tree).decode()


def status_of(outcome: Outcome) -> str:
    """The one word for an outcome; the worst of what is wrong with it."""
    if isinstance(outcome, Exchange):
        return _exchange_status(outcome)
    if isinstance(outcome, Lost):
        return _LOST_STATUS.get(outcome.kind, GAP)
    if isinstance(outcome, Ended | Seen):
        return OK
    return _TROUBLE_STATUS.get(outcome.kind, UNDECODABLE)


def _exchange_status(exchange: Exchange) -> str:
    sides = [side for side in (exchange.request, exchange.response) if side is not None]
    damages = {side.frame.damage for side in sides}
    if any(side.is_undecodable for side in sides):
        return UNDECODABLE
    if "gap" in damages:
        return GAP
    if damages - {None}:
        return TRUNCATED
    if exchange.request is None:
        return NO_REQUEST
    if exchange.response is None and exchange.request.wants_answer:
        return NO_RESPONSE
    return OK


def conn_id(flow: Flow) -> str:
    """The text that names a connection: client first."""
    side = flow.client_side
    return _conn_id(flow.ends[side], flow.ends[1 - side])


@lru_cache(maxsize=4096)
def _conn_id(client: End, broker: End) -> str:
    texts = [f"[{address(ip)}]:{port}" if len(ip) == 16 else f"{address(ip)}:{port}" for ip, port in (client, broker)]
    return ">".join(texts)


def group_and_member(body: msgspec.Struct) -> tuple[str | None, str | None]:
    """The group and the member that a request names, null where it names none."""
    return getattr(body, "group_id", None) or None, getattr(body, "member_id", None) or None


def _record_issues(message: Message) -> list[Issue]:
    """Damaged record batches: the message is whole, but what it carries is not."""
    place = PLACES.get(message.name)
    if place is None or message.body is None:
        return []
    issues: list[Issue] = []
    for topic in getattr(message.body, place.topics[0]):
        for partition in getattr(topic, place.partitions[0]):
            try:
                for batch in batches_of(getattr(partition, place.records[0])):
                    batch.check_crc()
            except WireError as error:
                issues.append(Issue("records", message.side, error.path, error.at, error.what))
    return issues
