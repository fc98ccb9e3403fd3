"""Errors of the API, as `application/problem+json` (RFC 9457) with types that stay the same."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

import msgspec

from kwire.error_codes import ErrorCode
from mockbroker.cluster_methods.waiting import WaitTimeout
from mockbroker.faults.fault_error import FaultError
from mockbroker.kafka_error import KafkaError

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:problem-type:mockbroker:"


class _Kind(NamedTuple):
    """A kind of problem: the end of its type, the status and the title."""

    name: str
    status: int
    title: str


class ProblemKind(_Kind, Enum):
    """Every kind of problem that the API answers with."""

    MALFORMED_JSON = _Kind("malformed-json", 400, "The body is not JSON")
    MALFORMED_REQUEST = _Kind("malformed-request", 400, "The request cannot be read")
    UNAUTHORIZED = _Kind("unauthorized", 401, "A token is missing or wrong")
    FORBIDDEN_HOST = _Kind("forbidden-host", 403, "The Host header is not an address of this server")
    FORBIDDEN_ORIGIN = _Kind("forbidden-origin", 403, "Pages from other origins may not use this server")
    NOT_FOUND = _Kind("not-found", 404, "There is no such resource")
    NOT_SUPPORTED = _Kind("not-supported", 404, "This server does not have the operation")
    METHOD_NOT_ALLOWED = _Kind("method-not-allowed", 405, "The resource does not have this method")
    REQUEST_TIMEOUT = _Kind("request-timeout", 408, "The request did not arrive in time")
    CONFLICT = _Kind("conflict", 409, "The cluster is not in a state for this")
    WAIT_TIMEOUT = _Kind("wait-timeout", 409, "What was waited for did not come within the limit")
    ADDRESS_IN_USE = _Kind("address-in-use", 409, "An address is in use by now")
    BODY_TOO_LARGE = _Kind("body-too-large", 413, "The body is too large")
    UNSUPPORTED_MEDIA_TYPE = _Kind("unsupported-media-type", 415, "The body must be application/json")
    INVALID_REQUEST = _Kind("invalid-request", 422, "A field or parameter is unknown, missing or of the wrong type")
    INVALID_VALUE = _Kind("invalid-value", 422, "A value cannot be what it is")
    INVALID_FAULT = _Kind("invalid-fault", 422, "The fault can never act")
    KAFKA_ERROR = _Kind("kafka-error", 409, "Kafka refuses this")
    TOO_MANY_STREAMS = _Kind("too-many-streams", 429, "There are too many streams of events")
    INTERNAL_ERROR = _Kind("internal-error", 500, "A defect of mockbroker; its log has the traceback")
    TOO_MANY_CONNECTIONS = _Kind("too-many-connections", 503, "There are too many connections")
    STOPPING = _Kind("stopping", 503, "The cluster is being stopped")

    @property
    def type_uri(self) -> str:
        """The `type` of problems of this kind."""
        return f"{TYPE_PREFIX}{self.value.name}"


class Problem(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A problem as it is sent. type: which kind, for programs; the other fields are for people, except those below.

    kafka_error, kafka_code: name and number of Kafka's error. seen: what there was instead of what was waited for.
    """

    type: str
    title: str
    status: int
    detail: str
    kafka_error: str | None = None
    kafka_code: int | None = None
    seen: str | None = None


class ProblemError(Exception):
    """Ends a request with a problem. headers: of the response."""

    def __init__(self, kind: ProblemKind, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.kind = kind
        self.headers = dict(headers or {})

    def problem(self) -> Problem:
        """The body of the response."""
        return create_problem(self.kind, str(self))


def create_problem(kind: ProblemKind, detail: str) -> Problem:
    """A problem without further fields."""
    return Problem(kind.type_uri, kind.value.title, kind.value.status, detail)


#: Statuses of Kafka's errors other than 409.
_NOT_FOUND = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.BROKER_ID_NOT_REGISTERED,
)
_INVALID = (
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.INVALID_PARTITIONS,
    ErrorCode.INVALID_REPLICATION_FACTOR,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ErrorCode.INVALID_CONFIG,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.INVALID_RECORD,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.OFFSET_OUT_OF_RANGE,
)


def describe_error(error: Exception) -> Problem | None:
    """The problem of an error that a method of the cluster raises; None for a defect."""
    match error:
        case ProblemError():
            return error.problem()
        case KafkaError():
            return _describe_kafka_error(error)
        case WaitTimeout():
            problem = create_problem(ProblemKind.WAIT_TIMEOUT, str(error))
            return msgspec.structs.replace(problem, seen=error.seen or None)
    kind = _find_kind(error)
    return None if kind is None else create_problem(kind, str(error))


def _find_kind(error: Exception) -> ProblemKind | None:
    match error:
        case FaultError():
            return ProblemKind.INVALID_FAULT
        case ValueError():
            return ProblemKind.INVALID_VALUE
        case OSError() if not isinstance(error, TimeoutError):
            return ProblemKind.ADDRESS_IN_USE
    # The cluster was stopped or reset during a wait; subclasses of this error are defects.
    return ProblemKind.CONFLICT if type(error) is RuntimeError else None


def _describe_kafka_error(error: KafkaError) -> Problem:
    status = 404 if error.code in _NOT_FOUND else 422 if error.code in _INVALID else 409
    return msgspec.structs.replace(
        create_problem(ProblemKind.KAFKA_ERROR, error.message or error.code.name),
        status=status,
        kafka_error=error.code.name,
        kafka_code=int(error.code),
    )
