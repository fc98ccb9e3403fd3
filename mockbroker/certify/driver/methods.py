"""The methods of the driver protocol: their parameters, their results, and the JSON Schema of both."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from kwire.error_codes import ErrorCode
from mockbroker.certify.driver import messages as m
from mockbroker.certify.driver.names import CAPABILITIES, ERROR_NAMES, PROTOCOL_VERSION
from mockbroker.certify.driver.settings import SETTINGS


class Method(NamedTuple):
    """The types of a method."""

    params: type[m.Value]
    result: type[m.Value]


METHODS = {
    "hello": Method(m.HelloParams, m.HelloResult),
    "open": Method(m.OpenParams, m.Nothing),
    "close": Method(m.ClientParams, m.CloseResult),
    "send": Method(m.SendParams, m.SendResult),
    "init_transactions": Method(m.ClientParams, m.Nothing),
    "begin": Method(m.ClientParams, m.Nothing),
    "commit_transaction": Method(m.ClientParams, m.Nothing),
    "abort_transaction": Method(m.ClientParams, m.Nothing),
    "send_offsets": Method(m.SendOffsetsParams, m.Nothing),
    "subscribe": Method(m.SubscribeParams, m.Nothing),
    "unsubscribe": Method(m.ClientParams, m.Nothing),
    "assign": Method(m.AssignParams, m.Nothing),
    "poll": Method(m.PollParams, m.PollResult),
    "commit": Method(m.CommitParams, m.CommitResult),
    "commit_async": Method(m.ClientParams, m.Nothing),
    "committed": Method(m.PartitionsParams, m.OffsetsResult),
    "position": Method(m.PartitionsParams, m.OffsetsResult),
    "seek": Method(m.SeekParams, m.Nothing),
    "pause": Method(m.PartitionsParams, m.Nothing),
    "resume": Method(m.PartitionsParams, m.Nothing),
    "assignment": Method(m.ClientParams, m.PartitionsResult),
    "acknowledge": Method(m.AcknowledgeParams, m.Nothing),
    "lock_timeout": Method(m.ClientParams, m.LockTimeoutResult),
    "create_topics": Method(m.CreateTopicsParams, m.Nothing),
    "delete_topics": Method(m.DeleteTopicsParams, m.Nothing),
    "create_partitions": Method(m.CreatePartitionsParams, m.Nothing),
    "list_topics": Method(m.ClientParams, m.TopicsResult),
    "describe_cluster": Method(m.ClientParams, m.ClusterResult),
    "list_offsets": Method(m.ListOffsetsParams, m.OffsetsResult),
}


#: Made on import, in one thread: msgspec 0.22 crashes if two threads at once decode a type for the first time.
RESULT_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    name: msgspec.json.Decoder(method.result) for name, method in METHODS.items()
}


def driver_schema() -> dict[str, Any]:
    """The JSON Schema of a line to the driver or from it (draft 2020-12), the file `driver.schema.json`.

    An answer does not name its method: `x-results` has the schema of the result of each. `x-error-codes` has the names
    of Kafka's errors by their codes.
    """
    types = [kind for method in METHODS.values() for kind in method]
    references, components = msgspec.json.schema_components([*types, m.ErrorInfo], ref_template="#/$defs/{name}")
    by_type = dict(zip([*types, m.ErrorInfo], references, strict=True))
    components["ErrorInfo"]["properties"]["name"]["enum"] = sorted(ERROR_NAMES)
    components["Delivery"]["anyOf"] = _delivery_kinds()
    components["HelloResult"]["properties"]["capabilities"]["items"]["enum"] = sorted(CAPABILITIES)
    components["HelloResult"]["properties"]["settings"]["items"]["enum"] = sorted(SETTINGS)
    components["OpenParams"]["properties"]["settings"]["propertyNames"] = {"enum": sorted(SETTINGS)}
    requests = [_request(name, by_type[method.params]) for name, method in METHODS.items()]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": "Generated from mockbroker/certify/driver/messages.py by `make generate`. Do not edit.",
        "title": f"Driver protocol of `mockbroker certify`, version {PROTOCOL_VERSION}",
        "oneOf": [{"$ref": "#/$defs/Request"}, {"$ref": "#/$defs/Answer"}],
        "$defs": {
            "Request": {"title": "Request", "oneOf": requests},
            "Answer": {
                "title": "Answer",
                "type": "object",
                "properties": {"id": {"type": "integer"}, "result": {"type": "object"}, "error": by_type[m.ErrorInfo]},
                "required": ["id"],
                "oneOf": [{"required": ["result"]}, {"required": ["error"]}],
            },
            **components,
        },
        "x-error-codes": {str(code.value): code.name for code in ErrorCode if code is not ErrorCode.NONE},
        "x-results": {name: by_type[method.result] for name, method in METHODS.items()},
    }


def _delivery_kinds() -> list[dict[str, Any]]:
    """What a delivery has: its place, or an error."""
    place = {"topic": {"type": "string"}, "partition": {"type": "integer"}, "offset": {"type": "integer"}}
    error = {"error": {"type": "object"}}
    return [{"required": list(fields), "properties": fields} for fields in (place, error)]


def _request(name: str, params: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "method": {"const": name}, "params": params},
        "required": ["id", "method", "params"],
    }
