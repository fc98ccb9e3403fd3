"""The columns of every level of rows: their names, kinds and meaning, and the Arrow schema made of them.

`docs/captures.md` holds the same table; a test keeps the two equal.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from kwire.capture.extras import require_pyarrow

if TYPE_CHECKING:
    import pyarrow as pa


class Kind(Enum):
    """What a column holds. Times are nanoseconds in a row, microseconds in Arrow (as in Spark), text in JSON."""

    STRING = "string"
    BOOL = "bool"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    TIME = "timestamp"
    BINARY = "binary"
    ISSUES = "issues"
    HEADERS = "headers"


class Column(NamedTuple):
    """One column: every column may be null, since a damaged capture may lack anything."""

    name: str
    kind: Kind
    about: str


_MESSAGE_KEY = (
    Column("file", Kind.STRING, "the capture's path, or the name given for bytes and file objects"),
    Column("conn_id", Kind.STRING, "client and broker address of the TCP connection, `ip:port>ip:port`"),
    Column("stream_epoch", Kind.INT32, "0 for the first connection of these addresses, one more for each reuse"),
    Column("client_id", Kind.STRING, "client id of the request header"),
    Column("api_key", Kind.INT16, "API key; null when the request was not seen"),
    Column("api_name", Kind.STRING, "name of the API; `SaslToken` for a raw token after SaslHandshake v0"),
    Column("api_version", Kind.INT16, "version of the request, as sent"),
    Column("correlation_id", Kind.INT32, "correlation id of request and response"),
    Column("req_packet", Kind.INT64, "number of the packet in which the request begins, from 1, as Wireshark counts"),
    Column("resp_packet", Kind.INT64, "number of the packet in which the response begins"),
)

_CONNECTION = (
    *_MESSAGE_KEY[:3],
    Column("client_ip", Kind.STRING, "address of the side that sends requests"),
    Column("client_port", Kind.INT32, "port of the side that sends requests"),
    Column("broker_ip", Kind.STRING, "address of the side that answers"),
    Column("broker_port", Kind.INT32, "port of the side that answers"),
    Column("link", Kind.STRING, "link layer: `ethernet`, `linux_sll`, `linux_sll2`, `loopback` or `raw`"),
    Column("tls", Kind.BOOL, "whether the connection speaks TLS"),
)

MESSAGES = (
    *_CONNECTION,
    *_MESSAGE_KEY[4:7],
    Column("header_version", Kind.INT16, "version of the request header"),
    *_MESSAGE_KEY[7:],
    *_MESSAGE_KEY[3:4],
    Column("software_name", Kind.STRING, "client software, from the connection's ApiVersions request"),
    Column("software_version", Kind.STRING, "its version, from the same request"),
    Column("principal", Kind.STRING, "user name, where SASL PLAIN or SCRAM showed it on this connection"),
    Column("group_id", Kind.STRING, "group that the request names"),
    Column("member_id", Kind.STRING, "member that the request names, or that the response gives"),
    Column("session_id", Kind.INT32, "session of a Fetch, or that it opens; a share session has group and member"),
    Column("session_epoch", Kind.INT32, "epoch of the session in Fetch, ShareFetch and ShareAcknowledge; -1 closes it"),
    Column("session_partitions", Kind.STRING, "JSON: all partitions of the session after this request, by topic"),
    Column("req_ts", Kind.TIME, "when the request's first byte was captured"),
    Column("req_end_ts", Kind.TIME, "when its last byte was captured"),
    Column("resp_ts", Kind.TIME, "when the response's first byte was captured"),
    Column("resp_end_ts", Kind.TIME, "when its last byte was captured"),
    Column("latency_us", Kind.INT64, "first response byte after last request byte, microseconds"),
    Column("transfer_us", Kind.INT64, "first to last byte of the response, microseconds"),
    Column("req_bytes", Kind.INT64, "size of the request frame with its length field"),
    Column("resp_bytes", Kind.INT64, "size of the response frame with its length field"),
    Column("throttle_ms", Kind.INT32, "throttle time that the response names"),
    Column("error_code", Kind.INT16, "the response's own error code, else the first one inside it that is not 0"),
    Column("error_name", Kind.STRING, "Kafka's name of that code"),
    Column("n_topics", Kind.INT32, "topics that the request names, or the response where the request names none"),
    Column("n_partitions", Kind.INT32, "partitions, counted the same way"),
    Column("status", Kind.STRING, "`ok`, `no_response`, `no_request`, `truncated`, `gap` or `undecodable`"),
    Column("in_flight", Kind.INT32, "requests of the connection that waited for an answer when this one was sent"),
    Column("order_ok", Kind.BOOL, "whether the response came in the order of the requests"),
    Column("issues", Kind.ISSUES, "everything odd: `kind`, `side`, `path`, `at` (byte offset), `detail`"),
    Column("body_request", Kind.STRING, "the request in Kafka's JSON form, secrets as `***`, records as a summary"),
    Column("body_response", Kind.STRING, "the response in the same form"),
)

_GROUP = (
    Column("group_id", Kind.STRING, "share group of the request"),
    Column("member_id", Kind.STRING, "member of the request"),
)

_PARTITION = (
    Column("topic", Kind.STRING, "topic name; from an id where Metadata or the like has named it, else null"),
    Column("topic_id", Kind.STRING, "topic id as base64url text, where known"),
    Column("partition", Kind.INT32, "partition index"),
)

_ERROR = (
    Column("error_code", Kind.INT16, "error code of the partition in the response"),
    Column("error_name", Kind.STRING, "Kafka's name of that code"),
)

PARTITIONS = (
    *_MESSAGE_KEY,
    Column("ts", Kind.TIME, "when the request was sent (the response, where no request was seen)"),
    *_PARTITION,
    *_ERROR,
    Column("base_offset", Kind.INT64, "Produce: first offset given by the broker; else first offset of the records"),
    Column("high_watermark", Kind.INT64, "high watermark in the response"),
    Column("log_start", Kind.INT64, "log start offset in the response"),
    Column("records", Kind.INT64, "records sent or received for the partition"),
    Column("batch_bytes", Kind.INT64, "bytes of record batches sent or received"),
    Column("codec", Kind.STRING, "compression of the batches, joined by `,` where they differ"),
    Column("producer_id", Kind.INT64, "producer id of the first batch; null without one"),
    Column("epoch", Kind.INT16, "producer epoch of the first batch"),
    Column("sequence", Kind.INT32, "base sequence of the first batch"),
)

SHARE_ACQUIRED = (
    *_MESSAGE_KEY,
    *_GROUP,
    *_PARTITION,
    Column("first_offset", Kind.INT64, "first acquired offset"),
    Column("last_offset", Kind.INT64, "last acquired offset"),
    Column("delivery_count", Kind.INT16, "deliveries, this one included"),
    Column("lock_timeout_ms", Kind.INT32, "acquisition lock time that the response names"),
    Column("ts", Kind.TIME, "when the response came"),
)

SHARE_ACKS = (
    *_MESSAGE_KEY,
    *_GROUP,
    *_PARTITION,
    Column("first_offset", Kind.INT64, "first offset of the acknowledgement"),
    Column("last_offset", Kind.INT64, "last offset of the acknowledgement"),
    Column("ack_type", Kind.INT16, "0 gap, 1 accept, 2 release, 3 reject, 4 renew"),
    Column("ack_name", Kind.STRING, "the same as a word"),
    Column("ts", Kind.TIME, "when the request was sent"),
    *_ERROR,
)

RECORDS = (
    *_MESSAGE_KEY,
    Column("direction", Kind.STRING, "`produce`, `fetch` or `share_fetch`"),
    *_PARTITION,
    Column("offset", Kind.INT64, "offset in the log; null for a produced record that no response placed"),
    Column("timestamp", Kind.TIME, "the record's own time; null where it has none between 1970 and 9999"),
    Column("timestamp_type", Kind.STRING, "`create` or `append`"),
    Column("codec", Kind.STRING, "compression of the record's batch"),
    Column("is_control", Kind.BOOL, "whether it is a control record, as a transaction marker"),
    Column("producer_id", Kind.INT64, "producer id of the batch; null without one"),
    Column("key_size", Kind.INT32, "bytes of the key; null for a null key"),
    Column("value_size", Kind.INT32, "bytes of the value; null for a null value"),
    Column("headers", Kind.HEADERS, "header keys, and the size of each value"),
    Column("key", Kind.BINARY, "the key, only where payloads are asked for"),
    Column("value", Kind.BINARY, "the value, only where payloads are asked for"),
    Column("ts", Kind.TIME, "when the frame that carried it was captured"),
    Column("issue", Kind.STRING, "why the records of a batch cannot be read; the row then stands for all that follows"),
)

FLOWS = (
    *_CONNECTION,
    Column("kind", Kind.STRING, "`kafka`, `tls` (not opened), `not_kafka`, or `no_data` (no byte was captured)"),
    Column("first_ts", Kind.TIME, "time of its first packet"),
    Column("last_ts", Kind.TIME, "time of its last packet"),
    Column("first_packet", Kind.INT64, "number of its first packet"),
    Column("last_packet", Kind.INT64, "number of its last packet"),
    Column("packets_client", Kind.INT64, "packets that the client sent"),
    Column("packets_broker", Kind.INT64, "packets that the broker sent"),
    Column("bytes_client", Kind.INT64, "TCP payload of the client on the wire, what was sent again included"),
    Column("bytes_broker", Kind.INT64, "TCP payload of the broker, counted the same way"),
    Column("retransmits_client", Kind.INT64, "packets of the client with bytes that it had sent before"),
    Column("retransmits_broker", Kind.INT64, "packets of the broker with bytes that it had sent before"),
    Column("lost_bytes_client", Kind.INT64, "bytes of the client whose packets are not in the capture"),
    Column("lost_bytes_broker", Kind.INT64, "bytes of the broker whose packets are not in the capture"),
    Column("zero_windows_client", Kind.INT64, "packets in which the client says that it can take nothing more"),
    Column("zero_windows_broker", Kind.INT64, "packets in which the broker says that"),
    Column("rtt_us", Kind.INT64, "round trip of the TCP handshake, microseconds; null where it was not captured"),
    Column(
        "ended", Kind.STRING, "`fin`, `rst`, `reuse` of its ports, `quiet` (too many are open), `end` of the capture"
    ),
    Column("ended_by", Kind.STRING, "`client` or `broker`, whoever sent the first FIN or RST; null where neither did"),
)

PACKETS = (
    Column("file", Kind.STRING, "the capture's path, or the name given for bytes and file objects"),
    Column("number", Kind.INT64, "number of the packet, from 1, as Wireshark counts"),
    Column("ts", Kind.TIME, "when it was captured"),
    Column("conn_id", Kind.STRING, "its connection, as above; null for a stray packet that belongs to none"),
    Column("stream_epoch", Kind.INT32, "which connection of these addresses"),
    Column("from_client", Kind.BOOL, "whether the client sent it; null where nobody knows who that is"),
    Column("source_ip", Kind.STRING, "address of its sender"),
    Column("source_port", Kind.INT32, "port of its sender"),
    Column("target_ip", Kind.STRING, "address of its receiver"),
    Column("target_port", Kind.INT32, "port of its receiver"),
    Column("link", Kind.STRING, "link layer: `ethernet`, `linux_sll`, `linux_sll2`, `loopback` or `raw`"),
    Column("seq", Kind.INT64, "sequence number, as sent"),
    Column("ack", Kind.INT64, "acknowledgement number, as sent"),
    Column("flags", Kind.STRING, "flags of TCP, as `SYN,ACK`"),
    Column("window", Kind.INT32, "receive window, as sent: before any scaling"),
    Column("payload_bytes", Kind.INT32, "bytes of TCP payload in the capture"),
    Column("missing_bytes", Kind.INT32, "bytes of it that the capture cut off (snaplen)"),
    Column("oddity", Kind.STRING, "`retransmission`, `out_of_order`, `overlap` (brings some bytes again), or null"),
)

LEVELS: dict[str, tuple[Column, ...]] = {
    "messages": MESSAGES,
    "partitions": PARTITIONS,
    "share_acquired": SHARE_ACQUIRED,
    "share_acks": SHARE_ACKS,
    "records": RECORDS,
    "flows": FLOWS,
    "packets": PACKETS,
}


def columns(level: str) -> tuple[Column, ...]:
    """The columns of a level; an unknown level is a ValueError that names the known ones."""
    if level not in LEVELS:
        raise ValueError(f"level {level!r} is not one of {', '.join(LEVELS)}")
    return LEVELS[level]


def arrow_schema(level: str) -> pa.Schema:
    """The Arrow schema of a level. Needs pyarrow."""
    pa = require_pyarrow()
    types = {
        Kind.STRING: pa.string(),
        Kind.BOOL: pa.bool_(),
        Kind.INT16: pa.int16(),
        Kind.INT32: pa.int32(),
        Kind.INT64: pa.int64(),
        Kind.TIME: pa.timestamp("us", tz="UTC"),
        Kind.BINARY: pa.binary(),
        Kind.ISSUES: pa.list_(
            pa.struct(
                [
                    ("kind", pa.string()),
                    ("side", pa.string()),
                    ("path", pa.string()),
                    ("at", pa.int64()),
                    ("detail", pa.string()),
                ]
            )
        ),
        Kind.HEADERS: pa.list_(pa.struct([("key", pa.string()), ("value_size", pa.int32())])),
    }
    return pa.schema([(column.name, types[column.kind]) for column in columns(level)])
