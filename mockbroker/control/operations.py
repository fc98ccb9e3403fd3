"""`Operation`: a method of a path with its function, from whose annotations come parameters, body and response."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, get_type_hints

if TYPE_CHECKING:
    import msgspec

    from mockbroker.cluster_methods.methods import ClusterMethods, SharedMethods
    from mockbroker.control.events.event_hub import EventHub
    from mockbroker.control.models.exchanges import EventKind

_NAMES_IN_PATH = re.compile(r"{(\w+)}")


@dataclass(frozen=True, slots=True)
class ControlContext:
    """What the functions of operations act on: those for clusters and proxies.

    api: the operations that there are. shut_down: ends the process; None where it is not the command's. client: the
    address of the client whose request it is.
    """

    cluster: SharedMethods
    events: EventHub
    api: ControlApi
    shut_down: Callable[[], None] | None = None
    client: str = ""


@dataclass(frozen=True, slots=True)
class ClusterContext(ControlContext):
    """What the functions of operations act on that only a cluster has."""

    cluster: ClusterMethods


class Signature(NamedTuple):
    """The types of an operation. body: None without one. response: None for an empty one."""

    context: type[ControlContext]
    parameters: type[msgspec.Struct]
    body: type | None
    response: type | None
    is_async: bool


@dataclass(frozen=True, slots=True)
class Operation:
    """A method of a path.

    function: takes the context, the parameters of path and query in one struct, and the body if there is one. Its
    docstring is in the description. tag: the subject. location: of what was created, a path with fields of the
    response. headers: of the request, each with the parameter that it also sets. body_types: of the description, where
    the body has one of several.
    """

    method: str
    path: str
    function: Callable[..., Any]
    tag: str
    status: int = 200
    location: str | None = None
    body_types: tuple[type, ...] = ()
    media_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def signature(self) -> Signature:
        """The types of the function."""
        return _read_signature(self.function)

    @property
    def has_json_response(self) -> bool:
        """Whether the response is JSON and not a stream."""
        return self.media_type == "application/json"

    @property
    def path_names(self) -> list[str]:
        """The names of the parameters in the path."""
        return _NAMES_IN_PATH.findall(self.path)

    @property
    def operation_id(self) -> str:
        """The name of the operation, in camel case."""
        first, *rest = self.function.__name__.split("_")
        return first + "".join(word.capitalize() for word in rest)


@dataclass(frozen=True, slots=True)
class ControlApi:
    """What a control serves.

    context: creates what its operations act on. event_kinds: of its stream. description: for the description of the
    API. absent: why it does not have the other operations of `routes.OPERATIONS`.
    """

    operations: tuple[Operation, ...]
    context: Callable[..., ControlContext]
    event_kinds: tuple[EventKind, ...]
    description: str
    absent: str = ""


@cache
def _read_signature(function: Callable[..., Any]) -> Signature:
    hints = get_type_hints(function)
    response = hints.pop("return")
    names = list(inspect.signature(function).parameters)
    assert names[:2] == ["control", "parameters"], f"{function.__name__}: {names}"
    body = hints[names[2]] if len(names) > 2 else None
    return Signature(
        hints["control"],
        hints["parameters"],
        body,
        None if response is type(None) else response,
        inspect.iscoroutinefunction(function),
    )
