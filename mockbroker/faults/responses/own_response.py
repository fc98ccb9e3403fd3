"""A whole response of a fault, in Kafka's JSON form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.codec import encode, from_json
from kwire.errors import WireError
from kwire.registry import API_KEYS, api_name, response_class
from mockbroker.faults.fault_error import FaultError

if TYPE_CHECKING:
    import msgspec

    from mockbroker.engine.dispatch import IncomingRequest
    from mockbroker.faults.api_fields import ApiFields
    from mockbroker.faults.model import Then


def check_own_response(then: Then, fields: ApiFields) -> None:
    """Check that at least one version of the API's response has this form. Raises: FaultError as the newest says."""
    if then.response is None:
        return
    key = next(key for key in API_KEYS if api_name(key) == fields.name)
    cls = response_class(key)
    low, high = cls.VERSIONS  # type: ignore[attr-defined]
    newest: WireError | None = None
    for version in range(high, low - 1, -1):
        try:
            encode(from_json(cls, version, then.response), version)
        except WireError as error:
            newest = newest or error
        else:
            return
    raise FaultError(f"response: {newest}") from newest


def build_own_response(incoming: IncomingRequest, tree: dict[str, object]) -> msgspec.Struct:
    """The response of this form in the version of a request. Raises: WireError where the version lacks a field."""
    cls = response_class(incoming.route.api_key)
    version = incoming.handler_version if incoming.route.is_translated else incoming.response_version
    response = from_json(cls, version, tree)
    encode(response, version)
    return response
