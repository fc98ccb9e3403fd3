"""The columns of every level of rows, and the Arrow schema: each is declared here once.

Tables, filters, the docs, and the sets of columns that readers build together (`message_columns`) follow from the
declarations. Functions that compute values are found by name; CONTRIBUTING.md has their places.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from kwire.capture.model import RowIssue
from kwire.capture.optional_dependencies import require_pyarrow
from kwire.capture.rows.column import Column, ColumnKind, Phase, Trait

if TYPE_CHECKING:
    import pyarrow as pa

STRING, BOOL, INT16, INT32, INT64, TIME, BINARY, ISSUES, HEADERS = ColumnKind
CONNECTION, CLIENT, REQUEST, RESPONSE, REQUEST_BODY, RESPONSE_BODY, BODIES, SESSION, JSON, _ = Phase
HIDDEN, LEADING, WARNING, TOPIC_NAMES, LARGE = Trait

MESSAGE_KEY = (
    Column("file", STRING, "the capture's path, or the name given for bytes and file objects", CONNECTION, HIDDEN),
    Column("conn_id", STRING, "client and broker address of the TCP connection, `ip:port>ip:port`",
           CONNECTION, short="conn"),
    Column("stream_epoch", INT32, "0 for the first connection of these addresses, one more for each reuse",
           CONNECTION, HIDDEN),
    Column("client_id", STRING, "client id of the request header", REQUEST, short="client"),
    Column("api_key", INT16, "API key; null when the request was not seen", REQUEST, HIDDEN),
    Column("api_name", STRING, "name of the API; `SaslToken` for a raw token after SaslHandshake v0",
           REQUEST, short="api"),
    Column("api_version", INT16, "version of the request, as sent", REQUEST, HIDDEN, short="version"),
    Column("correlation_id", INT32, "correlation id of request and response", REQUEST, HIDDEN, short="correlation"),
    Column("req_packet", INT64, "number of the packet in which the request begins, from 1, as Wireshark counts",
           REQUEST, HIDDEN),
    Column("resp_packet", INT64, "number of the packet in which the response begins", RESPONSE, HIDDEN),
)  # fmt: skip

_CONNECTION_KEY = (
    *MESSAGE_KEY[:3],
    Column("client_ip", STRING, "address of the side that sends requests", CONNECTION, HIDDEN),
    Column("client_port", INT32, "port of the side that sends requests", CONNECTION, HIDDEN),
    Column("broker_ip", STRING, "address of the side that answers", CONNECTION, HIDDEN),
    Column("broker_port", INT32, "port of the side that answers", CONNECTION, HIDDEN),
    Column("link", STRING, "link layer: `ethernet`, `linux_sll`, `linux_sll2`, `loopback` or `raw`",
           CONNECTION, HIDDEN),
    Column("tls", BOOL, "whether the connection speaks TLS", CONNECTION),
)  # fmt: skip

MESSAGES = (
    *_CONNECTION_KEY,
    *MESSAGE_KEY[4:7],
    Column("header_version", INT16, "version of the request header", REQUEST, HIDDEN),
    *MESSAGE_KEY[7:],
    *MESSAGE_KEY[3:4],
    Column("software_name", STRING, "client software, from the connection's ApiVersions request",
           CLIENT, short="software"),
    Column("software_version", STRING, "its version, from the same request", CLIENT),
    Column("principal", STRING, "user name, where SASL PLAIN or SCRAM showed it on this connection",
           CLIENT, short="user"),
    Column("group_id", STRING, "group that the request names", REQUEST_BODY, short="group"),
    Column("member_id", STRING, "member that the request names, or that the response gives", BODIES, short="member"),
    Column("session_id", INT32, "session of a Fetch, or that it opens; a share session has group and member", SESSION),
    Column("session_epoch", INT32, "epoch of the session in Fetch, ShareFetch and ShareAcknowledge; -1 closes it",
           SESSION),
    Column("session_partitions", STRING, "JSON: all partitions of the session after this request, by topic",
           SESSION, TOPIC_NAMES | LARGE),
    Column("req_ts", TIME, "when the request's first byte was captured", REQUEST),
    Column("req_end_ts", TIME, "when its last byte was captured", REQUEST),
    Column("resp_ts", TIME, "when the response's first byte was captured", RESPONSE),
    Column("resp_end_ts", TIME, "when its last byte was captured", RESPONSE),
    Column("latency_us", INT64, "first response byte after last request byte, microseconds", RESPONSE, short="latency"),
    Column("transfer_us", INT64, "first to last byte of the response, microseconds", RESPONSE, short="transfer"),
    Column("req_bytes", INT64, "size of the request frame with its length field", REQUEST),
    Column("resp_bytes", INT64, "size of the response frame with its length field", RESPONSE),
    Column("throttle_ms", INT32, "throttle time that the response names", RESPONSE_BODY, short="throttle"),
    Column("error_code", INT16, "the response's own error code, else the first one inside it that is not 0",
           RESPONSE_BODY, HIDDEN),
    Column("error_name", STRING, "Kafka's name of that code", RESPONSE_BODY, short="error"),
    Column("n_topics", INT32, "topics that the request names, or the response where the request names none", BODIES),
    Column("n_partitions", INT32, "partitions, counted the same way", BODIES),
    Column("status", STRING, "`ok`, `no_response`, `no_request`, `truncated`, `gap` or `undecodable`", BODIES),
    Column("in_flight", INT32, "requests of the connection that waited for an answer when this one was sent", REQUEST),
    Column("order_ok", BOOL, "whether the response came in the order of the requests", RESPONSE),
    Column("issues", ISSUES, "all problems of the exchange: `kind`, `side`, `path`, `at` (byte offset), `detail`",
           BODIES, WARNING),
    Column("body_request", STRING, "the request in Kafka's JSON form, secrets as `***`, records as a summary",
           JSON, LARGE),
    Column("body_response", STRING, "the response in the same form", JSON, LARGE),
)  # fmt: skip

_GROUP = (
    Column("group_id", STRING, "share group of the request", short="group"),
    Column("member_id", STRING, "member of the request", short="member"),
)

_PARTITION = (
    Column("topic", STRING, "topic name; from an id where Metadata or the like has named it, else null",
           traits=TOPIC_NAMES),
    Column("topic_id", STRING, "topic id as base64url text, where known", traits=HIDDEN),
    Column("partition", INT32, "partition index"),
)  # fmt: skip

_ERROR = (
    Column("error_code", INT16, "error code of the partition in the response", traits=HIDDEN),
    Column("error_name", STRING, "Kafka's name of that code", short="error"),
)

PARTITIONS = (
    *MESSAGE_KEY,
    Column("ts", TIME, "when the request was sent (the response, where no request was seen)",
           traits=LEADING, short="time"),
    *_PARTITION,
    *_ERROR,
    Column("base_offset", INT64, "Produce: first offset given by the broker; else first offset of the records"),
    Column("high_watermark", INT64, "high watermark in the response"),
    Column("log_start", INT64, "log start offset in the response"),
    Column("records", INT64, "records sent or received for the partition"),
    Column("batch_bytes", INT64, "bytes of record batches sent or received"),
    Column("codec", STRING, "compression of the batches, joined by `,` where they differ"),
    Column("producer_id", INT64, "producer id of the first batch; null without one"),
    Column("epoch", INT16, "producer epoch of the first batch"),
    Column("sequence", INT32, "base sequence of the first batch"),
)  # fmt: skip

SHARE_ACQUIRED = (
    # Only ShareFetch acquires.
    *(column._replace(traits=HIDDEN) if column.name == "api_name" else column for column in MESSAGE_KEY),
    *_GROUP,
    *_PARTITION,
    Column("first_offset", INT64, "first acquired offset"),
    Column("last_offset", INT64, "last acquired offset"),
    Column("delivery_count", INT16, "deliveries, this one included", short="deliveries"),
    Column("lock_timeout_ms", INT32, "acquisition lock time that the response names", short="lock_timeout"),
    Column("ts", TIME, "when the response came", traits=LEADING, short="time"),
)

SHARE_ACKS = (
    *MESSAGE_KEY,
    *_GROUP,
    *_PARTITION,
    Column("first_offset", INT64, "first offset of the acknowledgement"),
    Column("last_offset", INT64, "last offset of the acknowledgement"),
    Column("ack_type", INT16, "0 gap, 1 accept, 2 release, 3 reject, 4 renew", traits=HIDDEN),
    Column("ack_name", STRING, "the same as a word", short="ack"),
    Column("ts", TIME, "when the request was sent", traits=LEADING, short="time"),
    *_ERROR,
)

RECORDS = (
    *MESSAGE_KEY,
    Column("direction", STRING, "`produce`, `fetch` or `share_fetch`"),
    *_PARTITION,
    Column("offset", INT64, "offset in the log; null for a produced record that no response placed"),
    Column("timestamp", TIME, "the record's own time; null where it has none between 1970 and 9999"),
    Column("timestamp_type", STRING, "`create` or `append`", traits=HIDDEN),
    Column("codec", STRING, "compression of the record's batch"),
    Column("is_control", BOOL, "whether it is a control record, as a transaction marker"),
    Column("producer_id", INT64, "producer id of the batch; null without one"),
    Column("key_size", INT32, "bytes of the key; null for a null key"),
    Column("value_size", INT32, "bytes of the value; null for a null value"),
    Column("headers", HEADERS, "header keys, and the size of each value"),
    Column("dlq_group_id", STRING, "share group of a dead letter (KIP-1191); null for other records"),
    Column("dlq_topic", STRING, "topic of the record that it stands for"),
    Column("dlq_partition", INT32, "partition of that record"),
    Column("dlq_offset", INT64, "offset of that record"),
    Column("dlq_delivery_count", INT16, "its deliveries"),
    Column("dlq_reason", STRING, "why it was sent to the queue"),
    Column("key", BINARY, "the key, only if payloads are requested", traits=LARGE),
    Column("value", BINARY, "the value, only if payloads are requested", traits=LARGE),
    Column("ts", TIME, "when the frame that carried it was captured", traits=LEADING, short="time"),
    Column("issue", STRING, "why the records of a batch cannot be read; the row then stands for all that follows",
           traits=WARNING),
)  # fmt: skip

FLOWS = (
    *_CONNECTION_KEY,
    Column("kind", STRING, "`kafka`, `tls` (not opened), `not_kafka`, or `no_data` (no byte was captured)"),
    Column("first_ts", TIME, "time of its first packet", traits=LEADING, short="time"),
    Column("last_ts", TIME, "time of its last packet"),
    Column("first_packet", INT64, "number of its first packet"),
    Column("last_packet", INT64, "number of its last packet"),
    Column("packets_client", INT64, "packets that the client sent"),
    Column("packets_broker", INT64, "packets that the broker sent"),
    Column("bytes_client", INT64, "TCP payload of the client on the wire, what was sent again included"),
    Column("bytes_broker", INT64, "TCP payload of the broker, counted the same way"),
    Column("retransmits_client", INT64, "packets of the client with bytes that it had sent before", traits=WARNING),
    Column("retransmits_broker", INT64, "packets of the broker with bytes that it had sent before", traits=WARNING),
    Column("lost_bytes_client", INT64, "bytes of the client whose packets are not in the capture", traits=WARNING),
    Column("lost_bytes_broker", INT64, "bytes of the broker whose packets are not in the capture", traits=WARNING),
    Column("zero_windows_client", INT64, "packets of the client with a receive window of 0", traits=WARNING),
    Column("zero_windows_broker", INT64, "packets of the broker with a receive window of 0", traits=WARNING),
    Column("rtt_us", INT64, "round trip of the TCP handshake, microseconds; null where it was not captured",
           short="rtt"),
    Column("ended", STRING, "`fin`, `rst`, `reuse` of its ports, `quiet` (too many are open), `end` of the capture"),
    Column("ended_by", STRING, "`client` or `broker`, the sender of the first FIN or RST; null without one"),
)  # fmt: skip

PACKETS = (
    Column("file", STRING, "the capture's path, or the name given for bytes and file objects", traits=HIDDEN),
    Column("number", INT64, "number of the packet, from 1, as Wireshark counts", traits=LEADING),
    Column("ts", TIME, "when it was captured", traits=LEADING, short="time"),
    Column("conn_id", STRING, "its connection, as above; null for a stray packet that belongs to none", short="conn"),
    Column("stream_epoch", INT32, "which connection of these addresses", traits=HIDDEN),
    Column("from_client", BOOL, "whether the client sent it; null if the client side is unknown"),
    Column("source_ip", STRING, "address of its sender"),
    Column("source_port", INT32, "port of its sender"),
    Column("target_ip", STRING, "address of its receiver"),
    Column("target_port", INT32, "port of its receiver"),
    Column("link", STRING, "link layer: `ethernet`, `linux_sll`, `linux_sll2`, `loopback` or `raw`", traits=HIDDEN),
    Column("seq", INT64, "sequence number, as sent"),
    Column("ack", INT64, "acknowledgement number, as sent"),
    Column("flags", STRING, "flags of TCP, as `SYN,ACK`"),
    Column("window", INT32, "receive window, as sent: before any scaling"),
    Column("payload_bytes", INT32, "bytes of TCP payload in the capture"),
    Column("missing_bytes", INT32, "bytes of it that the capture cut off (snaplen)"),
    Column("anomaly", STRING, "`retransmission`, `out_of_order`, `overlap` (brings some bytes again), or null",
           traits=WARNING),
)  # fmt: skip

LEVELS: dict[str, tuple[Column, ...]] = {
    "messages": MESSAGES,
    "partitions": PARTITIONS,
    "share_acquired": SHARE_ACQUIRED,
    "share_acks": SHARE_ACKS,
    "records": RECORDS,
    "flows": FLOWS,
    "packets": PACKETS,
}


def level_columns(level: str) -> tuple[Column, ...]:
    """The columns of a level.

    Raises: ValueError for an unknown level.
    """
    if level not in LEVELS:
        raise ValueError(f"level {level!r} is not one of {', '.join(LEVELS)}")
    return LEVELS[level]


def message_columns(*phases: Phase) -> frozenset[str]:
    """The names of the columns of `messages` that are filled in these phases."""
    return frozenset(column.name for column in MESSAGES if column.phase in phases)


def columns_with(trait: Trait) -> frozenset[str]:
    """The names of the columns of any level with the trait."""
    return frozenset(column.name for columns in LEVELS.values() for column in columns if trait in column.traits)


@cache
def arrow_schema(level: str) -> pa.Schema:
    """The Arrow schema of a level. Needs pyarrow."""
    pa = require_pyarrow()
    issue_fields = [(name, pa.int64() if name == "at" else pa.string()) for name in RowIssue._fields]
    types = {
        STRING: pa.string(),
        BOOL: pa.bool_(),
        INT16: pa.int16(),
        INT32: pa.int32(),
        INT64: pa.int64(),
        TIME: pa.timestamp("us", tz="UTC"),
        BINARY: pa.binary(),
        ISSUES: pa.list_(pa.struct(issue_fields)),
        HEADERS: pa.list_(pa.struct([("key", pa.string()), ("value_size", pa.int32())])),
    }
    return pa.schema([(column.name, types[column.kind]) for column in level_columns(level)])
