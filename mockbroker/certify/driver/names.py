"""Names of the driver protocol: its version, capabilities, settings and errors."""

from __future__ import annotations

from kwire.error_codes import ErrorCode

#: The version of the protocol that this command speaks.
PROTOCOL_VERSION = 1

#: What the client itself found, without an error code of a broker.
LOCAL_ERRORS = frozenset(
    {
        "LOCAL_AUTHENTICATION",
        "LOCAL_FATAL",
        "LOCAL_ILLEGAL_STATE",
        "LOCAL_NO_OFFSET",
        "LOCAL_OTHER",
        "LOCAL_TIMEOUT",
        "LOCAL_TRANSPORT",
        "LOCAL_UNSUPPORTED",
    }
)
ERROR_NAMES = frozenset({code.name for code in ErrorCode if code is not ErrorCode.NONE} | LOCAL_ERRORS)

CAPABILITIES = frozenset(
    {
        "producer",
        "producer.idempotence",
        "producer.transactions",
        "consumer.assign",
        "consumer.classic",
        "consumer.classic.cooperative",
        "consumer.classic.static",
        "consumer.kip848",
        "consumer.kip848.regex",
        "consumer.pattern",
        "consumer.rebalance_events",
        "consumer.wakeup",
        "consumer.seek",
        "consumer.pause",
        "consumer.offsets",
        "share",
        "share.explicit",
        "share.commit",
        "share.callback",
        "share.renew",
        "share.delivery_count",
        "share.lock_timeout",
        "share.wakeup",
        "admin.topics",
        "admin.cluster",
        "admin.offsets",
        "sasl.plain",
        "sasl.scram",
        "sasl.oauthbearer",
        "tls",
        "compression.gzip",
        "compression.snappy",
        "compression.lz4",
        "compression.zstd",
    }
)
