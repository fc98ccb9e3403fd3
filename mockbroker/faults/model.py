"""`Fault`: what goes wrong (`Then`), and for which requests (`When`), as frozen values with a JSON form."""

from __future__ import annotations

from inspect import cleandoc
from typing import Annotated, Any, Literal

import msgspec

from mockbroker.faults.cluster_model import ClusterFault
from mockbroker.faults.fault_error import FaultError, explain_wrong_json

ErrorPlace = Literal["top", "topic", "partition"]
Drop = Literal["close", "reset", "half-close"]
Event = Literal["request", "connection"]
FieldValue = bool | int | str | None
Answer = Literal["never", "twice", "late"]
StateName = Literal["fence-member", "fence-producer", "expire-transaction", "expire-locks"]

_Count = Annotated[int, msgspec.Meta(ge=1)]
_Milliseconds = Annotated[int, msgspec.Meta(ge=0)]
_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_Probability = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]


class When(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, rename="camel"):
    """The requests, or new connections, that a fault matches: those for which every given condition holds.

    on: "request", or "connection" for connections that clients open; these have a node, a listener and a principal.
    api: the name of an API, "Produce"; None for every one. node, listener, connection: where the request arrives.
    version: of the request. client_id, software_name, software_version: of the client. principal: "User:alice".
    topic, partition: one of those that the request names or, for a fetch, that its session has; for Metadata the
    partitions of its topics. group, member, transactional_id: that it names; FindCoordinator by its key.
    filter: a condition on the fields of the request, in the language of `kwire decode -Y`.
    from_ms, until_ms: a time span of the cluster's clock, milliseconds since the fault was added.
    first: the first match that counts, from 1. every: of those, each k-th. times: how many of those at most.
    probability: that one of those fires, drawn from the cluster's seed.
    """

    on: Event = "request"
    api: str | None = None
    node: int | None = None
    listener: str | None = None
    connection: int | None = None
    version: Annotated[int, msgspec.Meta(ge=0)] | None = None
    client_id: str | None = None
    software_name: str | None = None
    software_version: str | None = None
    principal: str | None = None
    topic: str | None = None
    partition: Annotated[int, msgspec.Meta(ge=0)] | None = None
    group: str | None = None
    member: str | None = None
    transactional_id: str | None = None
    filter: str | None = None
    from_ms: _Milliseconds = 0
    until_ms: _Milliseconds | None = None
    first: _Count = 1
    every: _Count = 1
    times: _Count | None = None
    probability: _Probability = 1.0


class Then(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, rename="camel"):
    """What happens to a matching request.

    error: the name of an error code. error_at: where in the response, "top", "topic" or "partition"; None: in the rows
    of the fault's topic and partition, else at the top level if the response has a code there, else in every row.
    error_message: where the response has a field for it. after: the request is handled, and then its answer is
    replaced, delayed or dropped; without, the fault comes before the work.
    delay_ms, jitter_ms: a delay on the cluster's clock, and a random part that is added to it. throttle_ms: the
    throttle time in the response, for which the broker reads no other request of the connection.
    set_fields: values of fields of the response by their paths, "responses.partitions.high_watermark": 0; in rows, in
    those of the fault's topic and partition. omit_rows, double_rows: paths of arrays whose rows are left out or are
    there twice, those of the fault's topic and partition; empty_arrays: paths of arrays without any rows.
    response: a whole response, in Kafka's JSON form. state: what happens to the member, the transaction or the locks
    that the request names, before it is handled or after. hold: the request waits until the test releases it.
    stale: leaders and replicas in the response are those of the time when the fault was added. max_versions: the
    highest versions that ApiVersions lists, by the name of the API; -1 for none.
    unknown_tags: the response and its structures have a tagged field that no version defines.
    drop: the connection ends, by a FIN ("close"), by a RST ("reset"), or the broker stops sending and reads on
    ("half-close"). answer: "never", "twice", or "late": after the answer to the next request.
    wrong_correlation_id: the answer has another id. truncate: only so many bytes of the answer are sent, then the
    connection is closed. flip_bits: so many random bits of the answer are inverted. corrupt_records: the record
    batches in the answer have a wrong CRC. drip_bytes, drip_ms: the answer is sent in parts of so many bytes, one
    each so many milliseconds. length_prefix: the four bytes before the answer have this value.
    """

    error: str | None = None
    error_at: ErrorPlace | None = None
    error_message: str | None = None
    after: bool = False
    delay_ms: _Milliseconds = 0
    jitter_ms: _Milliseconds = 0
    throttle_ms: _Milliseconds | None = None
    set_fields: dict[str, FieldValue] | None = None
    omit_rows: tuple[str, ...] = ()
    double_rows: tuple[str, ...] = ()
    empty_arrays: tuple[str, ...] = ()
    response: dict[str, Any] | None = None
    state: StateName | None = None
    hold: bool = False
    stale: bool = False
    max_versions: dict[str, int] | None = None
    unknown_tags: bool = False
    drop: Drop | None = None
    answer: Answer | None = None
    wrong_correlation_id: bool = False
    truncate: Annotated[int, msgspec.Meta(ge=0)] | None = None
    flip_bits: Annotated[int, msgspec.Meta(ge=0)] = 0
    corrupt_records: bool = False
    drip_bytes: _Count | None = None
    drip_ms: _Milliseconds = 0
    length_prefix: _Int32 | None = None


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, rename="camel"):
    """One fault. name: in messages and in the journal; optional: it may stay without a hit.

    `mockbroker.faults.validation.check_fault` checks one.
    """

    when: When = When()
    then: Then
    name: str = ""
    optional: bool = False

    def to_json(self) -> dict[str, object]:
        """The fault as plain values; `fault_from_json` reads them."""
        fields: dict[str, object] = msgspec.to_builtins(self)
        return fields


class FaultFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The content of a file of faults, for `mockbroker --faults`: those of requests, and those of the cluster."""

    faults: tuple[Fault, ...] = ()
    cluster_faults: tuple[ClusterFault, ...] = ()


#: Made when the module is loaded: msgspec 0.22 can crash when two threads use a type for the first time at once.
_FILES = msgspec.json.Decoder(FaultFile)
_FILE_CLASSES = (FaultFile, Fault, When, Then, ClusterFault)


def fault_from_json(value: object) -> Fault:
    """A fault from its JSON form. Raises: FaultError for a wrong form; the content is not checked."""
    try:
        return msgspec.convert(value, Fault)
    except msgspec.ValidationError as error:
        raise explain_wrong_json(error, value, Fault, When, Then) from error


def faults_from_text(text: str | bytes) -> tuple[Fault | ClusterFault, ...]:
    """The faults of a JSON file. Raises: FaultError for a wrong form; the content is not checked."""
    try:
        file = _FILES.decode(text)
    except msgspec.ValidationError as error:
        raise explain_wrong_json(error, msgspec.json.decode(text), *_FILE_CLASSES) from error
    except msgspec.DecodeError as error:
        raise FaultError(str(error)) from error
    return *file.faults, *file.cluster_faults


def faults_from_json(value: object) -> tuple[Fault | ClusterFault, ...]:
    """The faults in the form of a file, as plain values. Raises: FaultError for a wrong form."""
    try:
        file = msgspec.convert(value, FaultFile)
    except msgspec.ValidationError as error:
        raise explain_wrong_json(error, value, *_FILE_CLASSES) from error
    return *file.faults, *file.cluster_faults


def faults_schema() -> dict[str, object]:
    """The JSON Schema of a file of faults, generated from the classes of this module."""
    schema: dict[str, object] = msgspec.json.schema(FaultFile)
    definitions: dict[str, dict[str, object]] = schema["$defs"]  # type: ignore[assignment]
    for definition in definitions.values():
        if "description" in definition:
            # The docstring of a class: its lines are indented up to Python 3.12.
            definition["description"] = cleandoc(str(definition["description"]))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Faults of mockbroker", **schema}
