"""Rows of the level `messages`: one for each exchange, stream gap, connection that is not Kafka, and capture issue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kwire.capture.kafka import message_fields
from kwire.capture.kafka.exchange import Exchange, TrafficRow
from kwire.capture.model import NonKafkaConnection, Row, RowIssue, StreamGap, connection_columns
from kwire.capture.rows.column import Phase
from kwire.capture.rows.columns import MESSAGES, message_columns
from kwire.capture.rows.header_values import header_values
from kwire.capture.rows.session_values import SESSION_VALUES
from kwire.error_codes import name_of
from kwire.errors import WireError
from kwire.payload import RECORDS_FIELDS, read_complete_batches
from kwire.redact import MASK, redacted_json

if TYPE_CHECKING:
    from kwire.capture.kafka.exchange import Outcome
    from kwire.capture.kafka.message_decoder import Message, Request, Response
    from kwire.capture.kafka.topic_names import TopicNames
    from kwire.capture.model import CaptureIssue, Flow
    from kwire.capture.options import Options

OK, NO_RESPONSE, NO_REQUEST = "ok", "no_response", "no_request"
TRUNCATED, GAP, UNDECODABLE = "truncated", "gap", "undecodable"
STATUSES = (OK, NO_RESPONSE, NO_REQUEST, TRUNCATED, GAP, UNDECODABLE)

_INT32_MAX = 2**31 - 1
_EMPTY_ROW: Row = {column.name: None for column in MESSAGES}
_CLIENT_COLUMNS = message_columns(Phase.CLIENT)
_GAP_STATUS = {"bad_length": UNDECODABLE, "tls": UNDECODABLE, "snaplen": TRUNCATED, "cut_length": TRUNCATED}
_ISSUE_STATUS = {
    "file_truncated": TRUNCATED,
    "header_cut": TRUNCATED,
    "interface": TRUNCATED,
    "ip_fragment": GAP,
    "dropped": GAP,
    # Nothing is missing.
    "duplicate_packets": OK,
}


class MessageRowBuilder:
    """Builds the rows of one capture."""

    def __init__(self, file: str, options: Options, names: TopicNames) -> None:
        """`file` is the value of that column."""
        self._file = file
        self._options = options
        self._names = names

    def build_rows(self, outcome: Outcome) -> list[Row]:
        """The row of an outcome; none for connections and packets of the other levels."""
        if isinstance(outcome, Exchange):
            return [self.exchange_row(outcome)]
        if isinstance(outcome, StreamGap):
            return [self._gap_row(outcome)]
        if isinstance(outcome, TrafficRow):
            return []
        return [self._non_kafka_row(outcome) if isinstance(outcome, NonKafkaConnection) else self._issue_row(outcome)]

    def exchange_row(self, exchange: Exchange) -> Row:
        """The row of a request, its response, or both."""
        request, response = exchange.request, exchange.response
        row = self._connection_columns(exchange.flow) | header_values(exchange)
        row |= {name: getattr(exchange.client, name) for name in _CLIENT_COLUMNS}
        issues: list[RowIssue] = []
        if request is not None:
            self._add_request_columns(row, request)
            issues += request.issues
        if response is not None:
            self._add_response_columns(row, response, is_token=request is not None and request.is_token)
            issues += response.issues
        if exchange.session is not None:
            row |= {name: read_value(exchange.session, self._names) for name, read_value in SESSION_VALUES.items()}
        for side in (request, response):
            if side is not None:
                issues += _record_batch_issues(side)
        row["status"] = outcome_status(exchange)
        row["issues"] = [issue._asdict() for issue in issues]
        return row

    def _gap_row(self, gap: StreamGap) -> Row:
        """The row of a stream range without a readable frame."""
        row = self._connection_columns(gap.flow)
        row["req_ts" if gap.is_request else "resp_ts"] = gap.ts
        row["status"] = outcome_status(gap)
        detail = f"{gap.detail}: {gap.missing} bytes missing, {gap.skipped} skipped until the next frame"
        side = "request" if gap.is_request else "response"
        row["issues"] = [RowIssue(gap.kind, side, "", gap.offset, detail)._asdict()]
        return row

    def _non_kafka_row(self, connection: NonKafkaConnection) -> Row:
        """The row of a connection that is not read as Kafka."""
        row = self._connection_columns(connection.flow)
        row["req_ts"] = connection.ts
        row["status"] = outcome_status(connection)
        detail = f"{connection.detail}; {connection.size} bytes skipped"
        row["issues"] = [RowIssue(connection.kind, "capture", "", None, detail)._asdict()]
        return row

    def _issue_row(self, issue: CaptureIssue) -> Row:
        """The row of a problem of the file, or of packets that belong to no connection."""
        issues = [RowIssue(issue.kind, "capture", "", None, issue.detail)._asdict()]
        return _EMPTY_ROW | {"file": self._file, "req_ts": issue.ts, "status": outcome_status(issue), "issues": issues}

    def _connection_columns(self, flow: Flow) -> Row:
        return _EMPTY_ROW | connection_columns(self._file, flow)

    def _add_request_columns(self, row: Row, request: Request) -> None:
        """The columns of the request's body."""
        body = request.body
        if request.is_token:
            row["body_request"] = self._token_json(request.frame.data)
        if body is not None:
            row["group_id"], row["member_id"] = group_and_member(body)
            self._add_topic_counts(row, body)
            row["body_request"] = self._body_json(request)

    def _add_response_columns(self, row: Row, response: Response, *, is_token: bool) -> None:
        """The columns of the response's body."""
        body = response.body
        if is_token:
            row["body_response"] = self._token_json(response.frame.data)
        if body is not None:
            code = message_fields.first_error_code(body)
            row["error_code"], row["error_name"] = code, name_of(code)
            row["throttle_ms"] = getattr(body, "throttle_time_ms", None)
            row["member_id"] = row["member_id"] or getattr(body, "member_id", None) or None
            self._add_topic_counts(row, body)
            row["body_response"] = self._body_json(response)

    def _add_topic_counts(self, row: Row, body: msgspec.Struct) -> None:
        topics = self._names.learn(body)
        if topics and not row["n_topics"]:
            row["n_topics"] = len({topic.topic_id or topic.name for topic in topics})
            row["n_partitions"] = min(sum(topic.partition_count for topic in topics), _INT32_MAX)
        elif row["n_topics"] is None:
            row["n_topics"] = row["n_partitions"] = 0

    def _body_json(self, message: Message) -> str | None:
        if not self._options.bodies or message.body is None:
            return None
        options = self._options
        tree = redacted_json(message.body, message.version, show_secrets=options.show_secrets, payload=options.payload)
        return msgspec.json.encode(tree).decode()

    def _token_json(self, token: bytes) -> str | None:
        if not self._options.bodies:
            return None
        return msgspec.json.encode({"token": token if self._options.show_secrets else MASK}).decode()


def outcome_status(outcome: Outcome) -> str:
    """The value of the column `status`: the most severe problem of an outcome."""
    if isinstance(outcome, Exchange):
        return _exchange_status(outcome)
    if isinstance(outcome, StreamGap):
        return _GAP_STATUS.get(outcome.kind, GAP)
    if isinstance(outcome, TrafficRow):
        return OK
    return _ISSUE_STATUS.get(outcome.kind, UNDECODABLE)


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
    if exchange.response is None and exchange.request.expects_response:
        return NO_RESPONSE
    return OK


def group_and_member(body: msgspec.Struct) -> tuple[str | None, str | None]:
    """The group id and member id of a request; None if they are absent or empty."""
    return getattr(body, "group_id", None) or None, getattr(body, "member_id", None) or None


def _record_batch_issues(message: Message) -> list[RowIssue]:
    """Issues of damaged record batches in a message that is complete."""
    fields = RECORDS_FIELDS.get(message.name)
    if fields is None or message.body is None:
        return []
    issues: list[RowIssue] = []
    for topic in getattr(message.body, fields.topics[0]):
        for partition in getattr(topic, fields.partitions[0]):
            try:
                for batch in read_complete_batches(getattr(partition, fields.records[0])):
                    batch.check_crc()
            except WireError as error:
                issues.append(RowIssue("records", message.side, error.path, error.at, error.what))
    return issues
