"""The table of conformance rules: id, level, what a client must do, and the source."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import NamedTuple

from kwire.conformance.model import Level


class Rule(NamedTuple):
    """A rule for clients. requirement: what a client must do, one sentence. source: KIP and section, or a guide."""

    id: str
    level: Level
    requirement: str
    source: str


_GUIDE = "Kafka protocol guide"

_TABLE = (
    Rule(
        "api-version-not-offered",
        Level.ERROR,
        "A request has a version that the broker's ApiVersions response offers.",
        f"{_GUIDE}, Retrieving Supported API versions; KIP-35",
    ),
    Rule(
        "correlation-id-in-flight",
        Level.ERROR,
        "A correlation id is not used again while the earlier request with it has no response.",
        f"{_GUIDE}, Headers: correlation_id",
    ),
    Rule(
        "malformed-request",
        Level.ERROR,
        "A request is encoded as its schema says, without bytes behind the body and with valid UTF-8 and booleans.",
        f"{_GUIDE}, Protocol Primitive Types",
    ),
    Rule(
        "throttle-ignored",
        Level.WARNING,
        "After a response with throttle_time_ms, the client sends nothing on the connection until this time is over.",
        "KIP-219, Proposed Changes",
    ),
    Rule(
        "retry-after-fatal-error",
        Level.WARNING,
        "A request that failed because its member or producer is unknown or fenced is not sent again unchanged; nor is "
        "a batch that the broker rejected for good.",
        f"{_GUIDE}, Error Codes: Retriable",
    ),
    Rule(
        "stale-leader-epoch",
        Level.WARNING,
        "A request has the newest leader epoch of the partition that its client has seen.",
        "KIP-320, Proposed Changes",
    ),
    Rule(
        "stale-generation",
        Level.WARNING,
        "A member sends the newest generation or member epoch that it was given.",
        "Kafka's error codes ILLEGAL_GENERATION and STALE_MEMBER_EPOCH; KIP-848, Public Interfaces",
    ),
    Rule(
        "heartbeat-too-soon",
        Level.WARNING,
        "A member with nothing new sends its next heartbeat after the interval that the coordinator gave.",
        "KIP-848 and KIP-932, HeartbeatIntervalMs of the heartbeat response",
    ),
    Rule(
        "group-left-without-leave",
        Level.INFO,
        "A member that ends sends a last heartbeat with epoch -1, or -2 for a static one that will return.",
        "KIP-848, KIP-932 and KIP-1071, MemberEpoch of the heartbeat request",
    ),
    Rule(
        "share-session-left-open",
        Level.INFO,
        "A share consumer that ends closes each share session by a last request with epoch -1.",
        "KIP-932, ShareSessionEpoch of ShareFetch and ShareAcknowledge requests",
    ),
    Rule(
        "share-session-wrong-epoch",
        Level.WARNING,
        "The epoch of a request in a share session is one higher than that of the request before.",
        "KIP-932, ShareSessionEpoch of ShareFetch and ShareAcknowledge requests",
    ),
    Rule(
        "share-ack-not-held",
        Level.ERROR,
        "A share consumer acknowledges only records that it has acquired and not yet acknowledged.",
        "KIP-932, ShareAcknowledge; Kafka's error code INVALID_RECORD_STATE",
    ),
    Rule(
        "share-ack-lock-expired",
        Level.WARNING,
        "A record is acknowledged, or its lock renewed, before its acquisition lock expires.",
        "KIP-932, acquisition lock; KIP-1222 for renewals",
    ),
    Rule(
        "share-ack-invalid-batch",
        Level.ERROR,
        "Acknowledgement batches of a partition ascend without overlap, with one type or one for each offset.",
        "KIP-932, AcknowledgementBatches of ShareFetch and ShareAcknowledge requests",
    ),
    Rule(
        "produce-sequence-gap",
        Level.ERROR,
        "A batch of an idempotent producer continues the sequence of its batches before.",
        "KIP-98, Idempotent Producer Guarantees",
    ),
)

#: The rules by id, in the order of the documentation.
RULES = {rule.id: rule for rule in _TABLE}


def check_rule_ids(rule_ids: Collection[str]) -> frozenset[str]:
    """The ids as a set. Raises: ValueError for one that is no rule, with the nearest; TypeError for a single text."""
    if isinstance(rule_ids, str):
        raise TypeError(f"{rule_ids!r} is one text; expected a collection of rule ids")
    for rule_id in rule_ids:
        if rule_id not in RULES:
            nearest = get_close_matches(rule_id, RULES, n=1)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"the rules are {', '.join(RULES)}"
            raise ValueError(f"{rule_id!r} is no conformance rule; {hint}")
    return frozenset(rule_ids)
