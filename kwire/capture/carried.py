"""What is open at the end of a capture and goes on in the next one of a series: connections, half frames, requests.

`Carried` are the rooms of the pipeline, kept; `dump` and `load` write them down and make them again. What is written
holds payload and, for TLS, the keys of connections: it is as secret as the captures. Reading it makes no object but
those of the reading rooms; that guards against damage. Whoever may write where it is kept is trusted, as with the
checkpoint of a stream.
"""

from __future__ import annotations

import builtins
import collections
import importlib
import io
import json
import pickle
from bisect import bisect_right
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kwire.capture import traffic
from kwire.capture.exchange import Exchanges
from kwire.capture.keylog import KeyLog
from kwire.capture.options import Options
from kwire.capture.reassembly import Connections
from kwire.capture.talks import Talks
from kwire.capture.topic_names import TopicNames
from kwire.capture.values import Closed, Frame, Trouble

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kwire.capture.exchange import Outcome
    from kwire.capture.values import FrameEvent, Segment, StreamEvent

# What the rooms are made of, besides their own classes and plain values.
_OTHERS = {
    ("collections", "deque"): collections.deque,
    ("builtins", "bytearray"): builtins.bytearray,
    ("builtins", "frozenset"): builtins.frozenset,
    ("builtins", "memoryview"): builtins.memoryview,
    ("builtins", "set"): builtins.set,
}
_ROOMS = ("kwire.capture.", "kwire.messages.")
# Rooms that open files and sockets.
_WORLDLY = frozenset({"kwire.capture.live", "kwire.capture.source"})


class NotCarried(ValueError):
    """Bytes that `dump` did not write."""


class OtherVersion(NotCarried):
    """What was written down has another shape than what would go on with it."""


class Carried:
    """The rooms from segments to outcomes, and the names of topics."""

    def __init__(self, level: str, options: Options, keys: KeyLog) -> None:
        """For rows of one level. `keys` are the secrets of connections that speak TLS."""
        self.names = TopicNames(options.topics)
        self.files: list[tuple[int, str]] = []
        """The captures of the series by the time of their first packet, in order."""
        self._watched: traffic.Following | None = None
        if level in traffic.LEVELS:
            self._watched = traffic.Following(options, keys, each_packet=level == "packets")
            return
        self._connections = Connections()
        self._talks = Talks(options, keys)
        self._exchanges = Exchanges(replace(options, sessions=options.sessions and level == "messages"))

    def outcomes(self, segments: Iterable[Segment | Trouble]) -> Iterator[Outcome]:
        """What more segments complete. Nothing ends with them."""
        for segment in segments:
            if isinstance(segment, Trouble):
                yield segment
            elif self._watched is not None:
                yield from self._watched.take(segment)
                yield from self._watched.settled()
            else:
                yield from self._through(self._connections.take(segment))

    def expire(self, before_ts: int) -> Iterator[Outcome]:
        """Give up connections that have been quiet since this time (nanoseconds), and requests that are older."""
        if self._watched is not None:
            yield from self._watched.expire(before_ts)
            return
        yield from self._through(self._connections.expire(before_ts))
        yield from self._exchanges.expire(before_ts)

    def close(self) -> Iterator[Outcome]:
        """Nothing more will come."""
        if self._watched is not None:
            yield from self._watched.close()
        else:
            yield from self._through(self._connections.close())

    def file_at(self, ts: int) -> str | None:
        """The capture that was under way at this time; None before the first that is known."""
        at = bisect_right(self.files, ts, key=lambda file: file[0])
        return self.files[at - 1][1] if at else None

    def forget_files(self, before_ts: int) -> None:
        """Nothing that is open began before this time."""
        del self.files[: max(bisect_right(self.files, before_ts, key=lambda file: file[0]) - 1, 0)]

    def _through(self, events: Iterable[StreamEvent]) -> Iterator[Outcome]:
        for event in events:
            for each in self._talks.take(event):
                yield from self._paired(each)

    def _paired(self, event: FrameEvent) -> Iterator[Outcome]:
        return self._exchanges.take(event) if isinstance(event, Frame | Closed) else iter((event,))


def dump(carried: Carried) -> bytes:
    """What `load` makes the same rooms from. Options and key logs are not in it."""
    out = io.BytesIO()
    writer = _Writer(out, protocol=5)
    writer.dump(carried)
    shapes = {f"{kind.__module__}.{kind.__qualname__}": _shape(kind) for kind in writer.kinds}
    return json.dumps(shapes).encode() + b"\n" + out.getvalue()


def load(written: bytes, options: Options, keys: KeyLog) -> Carried:
    """The rooms that were written down, with options and secrets as they are now.

    Raises: NotCarried for anything that `dump` did not write.
    """
    first, _, rest = written.partition(b"\n")
    try:
        reader = _Reader(io.BytesIO(rest), {"options": options, "keys": keys}, json.loads(first))
        found = reader.load()
    except OtherVersion:
        raise
    except Exception as error:  # Damaged bytes may fail in any of the classes that they name.
        raise NotCarried(f"the state of open connections cannot be read: {error}") from error
    if not isinstance(found, Carried):
        raise NotCarried(f"the state of open connections holds a {type(found).__name__}")
    return found


def _shape(kind: type) -> list[str]:
    """What an object of a class consists of, as far as the class tells."""
    declared = {*getattr(kind, "__struct_fields__", ()), *vars(kind).get("__annotations__", {})}
    slots = vars(kind).get("__slots__", ())
    made = getattr(vars(kind).get("__init__"), "__code__", None)
    return sorted({*declared, *([slots] if isinstance(slots, str) else slots), *(made.co_names if made else ())})


class _Writer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, protocol: int) -> None:
        super().__init__(file, protocol=protocol)
        self.kinds: set[type] = set()

    def persistent_id(self, thing: object) -> str | None:
        """Options and secrets are given anew to whoever goes on."""
        if isinstance(thing, Options):
            return "options"
        return "keys" if isinstance(thing, KeyLog) else None

    def reducer_override(self, thing: object) -> Any:
        """Decoded messages look at records where the frame has them."""
        kind = type(thing)
        if kind.__module__.startswith(_ROOMS):
            self.kinds.add(kind)
        return (memoryview, (thing.tobytes(),)) if isinstance(thing, memoryview) else NotImplemented


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, given: dict[str, object], shapes: dict[str, list[str]]) -> None:
        super().__init__(file)
        self._given = given
        self._shapes = shapes

    def persistent_load(self, name: str) -> object:
        """Options or secrets, as they are now."""
        return self._given[name]

    def find_class(self, module: str, name: str) -> type:
        """Classes of the reading rooms alone: no function, and nothing that a room has only imported."""
        found: object = _OTHERS.get((module, name))
        if found is None and module.startswith(_ROOMS) and module not in _WORLDLY and "." not in name:
            found = getattr(importlib.import_module(module), name)
            if getattr(found, "__module__", None) != module:
                found = None
        if not isinstance(found, type):
            raise pickle.UnpicklingError(f"{module}.{name} is nothing that is carried")
        own = self._shapes.get(f"{module}.{name}")
        if own is not None and own != _shape(found):
            raise OtherVersion(f"the state of open connections is of another version of kwire ({name} has changed)")
        return found
