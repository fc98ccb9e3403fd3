"""Changes of the configurations of several resources: what a broker checks, and what its controller does with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from kwire.error_codes import ErrorCode
from kwire.messages import alter_configs as replace
from kwire.messages import incremental_alter_configs as incremental
from mockbroker.engine.context import Context
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.config_changes import ConfigOperation
from mockbroker.state.metadata.configs import ResourceKind
from mockbroker.state.metadata.record_limit import check_record_count

Q = TypeVar("Q", incremental.AlterConfigsResource, replace.AlterConfigsResource)
R = TypeVar("R")


class ControllerFailure(KafkaError):
    """The controller fails: so do all resources that the broker forwards to it in the same request."""


#: The types of resources that the broker does not check before it forwards them to the controller.
_FORWARDED = (ResourceKind.TOPIC, ResourceKind.GROUP, ResourceKind.CLIENT_METRICS)


class Change(NamedTuple):
    """A change that can be applied, and how many records the controller writes for it."""

    apply: Callable[[], None]
    record_count: int = 0


def alter_each(
    resources: Sequence[Q],
    plan: Callable[[Q], Change],
    row_class: Callable[[int, str | None, int, str], R],
    ctx: Context,
    *,
    validate_only: bool,
) -> list[R]:
    """Plan the changes of all resources, then apply them; one that is listed twice is rejected.

    Returns: a row for each. Source: Kafka's ConfigAdminManager.preprocess and ControllerApis.
    """
    named = Counter((row.resource_type, row.resource_name) for row in resources)
    if ctx.is_at_controller:
        resources = _list_once(resources)
    results: list[KafkaError | Change] = []
    forwarded: list[int] = []
    for at, row in enumerate(resources):
        try:
            if named[row.resource_type, row.resource_name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            _check_row(row, ctx)
            if row.resource_type in _FORWARDED:
                forwarded.append(at)
            results.append(plan(row))
            if row.resource_type == ResourceKind.BROKER:
                forwarded.append(at)
        except KafkaError as error:
            results.append(error)
    failure = _find_controller_failure(results)
    if failure is not None:
        for at in forwarded:
            results[at] = failure
    rows = []
    for row, result in zip(resources, results, strict=True):
        code, message = ErrorCode.NONE, None
        if isinstance(result, KafkaError):
            code, message = result.code, result.message
        elif not validate_only:
            result.apply()
        rows.append(row_class(code, message, row.resource_type, row.resource_name))
    return rows


def _list_once(resources: Sequence[Q]) -> list[Q]:
    """The first row of each resource: a controller answers those that are listed several times once."""
    first: dict[tuple[int, str], Q] = {}
    for row in resources:
        first.setdefault((row.resource_type, row.resource_name), row)
    return list(first.values())


def _find_controller_failure(results: Sequence[KafkaError | Change]) -> KafkaError | None:
    """The error that all resources get which the broker forwards to the controller, None if there is none."""
    if any(isinstance(result, ControllerFailure) for result in results):
        return ControllerFailure(ErrorCode.UNKNOWN_SERVER_ERROR)
    try:
        check_record_count(sum(result.record_count for result in results if isinstance(result, Change)))
    except KafkaError as error:
        return error
    return None


def _check_row(row: incremental.AlterConfigsResource | replace.AlterConfigsResource, ctx: Context) -> None:
    """What a broker checks before its controller does: keys that occur twice, and values that are null.

    At the listener of the controller the last one counts, and null deletes; but an unknown type has a code of its own.
    Raises: INVALID_REQUEST, UNSUPPORTED_VERSION.
    """
    if ctx.is_at_controller:
        if row.resource_type not in ResourceKind._value2member_map_:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"the resource type {row.resource_type} is unknown")
        return
    names = [config.name for config in row.configs]
    nulls = [
        config.name
        for config in row.configs
        if config.value is None and getattr(config, "config_operation", None) != ConfigOperation.DELETE
    ]
    if len(set(names)) != len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    if nulls:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
