"""Checks of a fault when it is created: one that can never match or act is an error that says what would work."""

from __future__ import annotations

from typing import cast

import msgspec

from kwire.error_codes import ErrorCode
from mockbroker.faults.api_fields import SELECTOR_FIELDS, ApiFields, api_fields
from mockbroker.faults.fault_error import FaultError, suggest
from mockbroker.faults.model import Fault, Then, When, fault_from_json
from mockbroker.faults.responses.own_response import check_own_response
from mockbroker.faults.responses.response_arrays import check_arrays
from mockbroker.faults.responses.response_fields import check_field_values, check_response_fields
from mockbroker.faults.state_names import STATE_CHANGES
from mockbroker.journal.api_names import resolve_api_name
from mockbroker.journal.field_filter import FieldFilter

#: Conditions on what a request names.
SELECTORS = ("topic", "partition", *SELECTOR_FIELDS)
#: Actions on an answer, which exclude that there is none.
_ANSWER_ACTIONS = (
    "error",
    "throttle_ms",
    "set_fields",
    "omit_rows",
    "double_rows",
    "empty_arrays",
    "response",
    "length_prefix",
    "stale",
    "max_versions",
    "unknown_tags",
    "wrong_correlation_id",
    "truncate",
    "flip_bits",
    "corrupt_records",
    "drip_bytes",
)
_MINIMUMS = {"partition": 0, "version": 0, "from_ms": 0, "until_ms": 0, "first": 1, "every": 1, "times": 1}
#: Actions that are given with 0.
_ZERO_ACTS = ("throttle_ms", "truncate", "length_prefix")
_THEN_MINIMUMS = {
    "delay_ms": 0,
    "jitter_ms": 0,
    "throttle_ms": 0,
    "truncate": 0,
    "flip_bits": 0,
    "drip_bytes": 1,
    "drip_ms": 0,
}
#: Actions on arrays of the answer, by their paths.
_PATHS = ("omit_rows", "double_rows", "empty_arrays")
#: How many bytes of memory a fault may hold in an answer is bounded by the answer; its bits are too.
_FLIPS_MAX = 10_000


def create_fault(api: str | type[msgspec.Struct] | None = None, **options: object) -> Fault:
    """A checked fault from the fields of `When`, `Then` and `Fault`, in any order.

    error may also be a number, drop may be True for "close". Raises: FaultError.
    """
    fields: dict[type[msgspec.Struct], dict[str, object]] = {When: {}, Then: {}, Fault: {}}
    owners: dict[str, type[msgspec.Struct]] = {name: When for name in When.__struct_fields__ if name != "api"}
    owners |= dict.fromkeys(Then.__struct_fields__, Then) | {"name": Fault, "optional": Fault}
    for name, value in options.items():
        if name not in owners:
            raise FaultError(f"a fault has no {name!r}; {suggest(name, owners)}")
        fields[owners[name]][name] = value
    fields[When]["api"] = None if api is None else _resolve_api(api)
    then = fields[Then]
    if isinstance(then.get("error"), int) and not isinstance(then["error"], bool):
        then["error"] = _error_name(cast(int, then["error"]))
    for name in _PATHS:
        if isinstance(then.get(name), str):
            then[name] = (then[name],)
        elif isinstance(then.get(name), list):
            then[name] = tuple(cast("list[object]", then[name]))
    if isinstance(then.get("drop"), bool):
        then["drop"] = "close" if then["drop"] else None
    fault = Fault(when=When(**fields[When]), then=Then(**fields[Then]), **fields[Fault])  # type: ignore[arg-type]
    return check_fault(fault)


def check_fault(fault: Fault) -> Fault:
    """The fault itself. Raises: FaultError if it can never match, or cannot do what it says."""
    _check_numbers(fault)
    check_field_values(fault.then)
    fault_from_json(fault.to_json())  # The types of all fields.
    when, then = fault.when, fault.then
    _check_actions(then)
    if when.on == "connection":
        _check_connection_fault(fault)
        return fault
    if when.api is None:
        _check_every_api(fault)
        return fault
    fields = api_fields(_resolve_api(when.api))
    for selector in SELECTORS:
        if getattr(when, selector) is not None and selector not in fields.selectors:
            has = ", ".join(sorted(fields.selectors)) or "none of " + ", ".join(SELECTORS)
            raise FaultError(f"{selector}: a {fields.name} request names no {selector}; it names {has}")
    if when.filter is not None:
        _check_filter(when.filter, fields.name)
    _check_response(then, fields)
    check_response_fields(then, fields)
    check_arrays(then, fields)
    check_own_response(then, fields)
    _check_state(then, fields)
    _check_rows(fault, fields)
    return fault


def _check_state(then: Then, fields: ApiFields) -> None:
    """Check that requests of the API name what the state of a fault acts on."""
    selectors = STATE_CHANGES[then.state].selectors if then.state is not None else ()
    for selector in selectors:
        if selector not in fields.selectors:
            has = ", ".join(sorted(fields.selectors)) or f"none of {', '.join(SELECTORS)}"
            raise FaultError(f"state: {then.state} needs a {selector}; a {fields.name} request names {has}")


def _check_filter(text: str, api: str) -> None:
    try:
        FieldFilter(text, api)
    except ValueError as error:
        raise FaultError(str(error)) from error


def _check_numbers(fault: Fault) -> None:
    for struct, minimums in ((fault.when, _MINIMUMS), (fault.then, _THEN_MINIMUMS)):
        for name, minimum in minimums.items():
            value = getattr(struct, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < minimum):
                raise FaultError(f"{name}: {value!r} is not a whole number from {minimum} on")
    when, then = fault.when, fault.then
    if not isinstance(when.probability, int | float) or not 0 < when.probability <= 1:
        raise FaultError(f"probability: {when.probability!r} is not above 0 and at most 1")
    if when.until_ms is not None and when.until_ms <= when.from_ms:
        raise FaultError(f"until_ms: {when.until_ms} is not after from_ms, {when.from_ms}")
    if then.flip_bits > _FLIPS_MAX:
        raise FaultError(f"flip_bits: {then.flip_bits} is more than {_FLIPS_MAX}")


def _check_actions(then: Then) -> None:
    """Check that the actions do not exclude each other, and that there is one."""
    given = [name for name in _ANSWER_ACTIONS if _is_set(then, name)]
    ends = [f"drop={then.drop!r}"] if then.drop is not None else []
    ends += [f"answer={then.answer!r}"] if then.answer == "never" else []
    if ends and given:
        raise FaultError(f"{ends[0]} leaves no answer, so {', '.join(given)} cannot act; make two faults of it")
    if then.drop is not None and then.answer is not None:
        raise FaultError(f"drop={then.drop!r} leaves no answer, so answer={then.answer!r} cannot act")
    if then.truncate is not None and (then.answer is not None or then.drip_bytes is not None):
        other = "drip_bytes" if then.answer is None else f"answer={then.answer!r}"
        raise FaultError(f"truncate closes the connection after a part of the answer, so {other} cannot act")
    if then.answer == "late" and (then.drip_bytes is not None or then.throttle_ms is not None):
        raise FaultError("answer='late' is sent at once after the next answer: neither drip_bytes nor throttle_ms act")
    if then.drip_ms and then.drip_bytes is None:
        raise FaultError("drip_ms: without drip_bytes there are no parts; set both")
    if then.response is not None and then.error is not None:
        raise FaultError("response: it has its own error codes; leave error out")
    for name in ("error_at", "error_message"):
        if getattr(then, name) is not None and then.error is None:
            raise FaultError(f"{name} without an error; set error too")
    has_effect = then.delay_ms or then.jitter_ms or then.answer is not None or then.hold or then.state is not None
    if not (given or ends or has_effect):
        known = [name for name in Then.__struct_fields__ if name not in ("after", "error_at", "error_message")]
        raise FaultError(f"the fault does nothing; set one of {', '.join(known)}")


def _check_connection_fault(fault: Fault) -> None:
    for name in (
        "api",
        "version",
        "client_id",
        "connection",
        "software_name",
        "software_version",
        *SELECTORS,
        "filter",
    ):
        if getattr(fault.when, name) is not None:
            raise FaultError(f"{name}: a new connection has none; it has node, listener and principal")
    given = [name for name in Then.__struct_fields__ if getattr(fault.then, name) != getattr(Then(), name)]
    if given != ["drop"]:
        others = ", ".join(name for name in given if name != "drop")
        raise FaultError(f"{others or 'drop'}: a new connection can only be dropped: 'close', 'reset' or 'half-close'")


def _check_every_api(fault: Fault) -> None:
    needing_api = [name for name in ("filter",) if getattr(fault.when, name) is not None]
    names = ["error", "throttle_ms", "corrupt_records", "set_fields", "stale", "max_versions", "unknown_tags"]
    names += [*_PATHS, "response", "state"]
    needing_api += [name for name in names if getattr(fault.then, name)]
    if needing_api:
        raise FaultError(f"{needing_api[0]}: not possible for a fault on every API; name the API")


def _check_response(then: Then, fields: ApiFields) -> None:
    if then.error is not None:
        code = ErrorCode.__members__.get(then.error)
        if code is None:
            raise FaultError(f"error: {then.error!r} is no error code of Kafka; {suggest(then.error, _error_names())}")
        if code == ErrorCode.NONE:
            raise FaultError("error: NONE is no error; leave it out, or set another action")
        if not fields.error_places:
            raise FaultError(f"error: a {fields.name} response carries no error code; drop or delay it instead")
        if then.error_at is not None and then.error_at not in fields.error_places:
            places = ", ".join(sorted(fields.error_places - {"row"})) or "rows of other kinds (leave error_at out)"
            raise FaultError(
                f"error_at: a {fields.name} response has no error code at {then.error_at!r}; it has at {places}"
            )
    if then.throttle_ms is not None and not fields.has_throttle_time:
        raise FaultError(f"throttle_ms: a {fields.name} response carries no throttle time; use delay_ms")
    if then.corrupt_records and not fields.record_paths:
        raise FaultError(f"corrupt_records: a {fields.name} response carries no records; Fetch and ShareFetch do")


def _check_rows(fault: Fault, fields: ApiFields) -> None:
    """Check that an error below the top has rows to be in."""
    if fault.then.error_at in ("topic", "partition") and "topic" not in fields.selectors:
        raise FaultError(
            f"error_at: a {fields.name} request names no topics, so that no row can be chosen; leave it out"
        )


def _is_set(then: Then, name: str) -> bool:
    value = getattr(then, name)
    return value is not None and value is not False and value != () and (value != 0 or name in _ZERO_ACTS)


def _resolve_api(api: str | type[msgspec.Struct]) -> str:
    try:
        return resolve_api_name(api)
    except ValueError as error:
        raise FaultError(f"api: {error}") from error


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError as error:
        raise FaultError(
            f"error: {code} is no error code of Kafka; it has {min(ErrorCode)} to {max(ErrorCode)}"
        ) from error


def _error_names() -> list[str]:
    return [name for name in ErrorCode.__members__ if name != "NONE"]
