"""The options of `kafka_capture`: Spark hands them over as text with lower-cased names, readers want values."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kwire.capture.keylog import read_key_logs
from kwire.capture.options import Options
from kwire.capture.schemas import LEVELS
from kwire.capture.schemas import columns as columns_of
from kwire.capture.where.where import Where
from kwire.registry import EDITIONS
from kwire.spark.indexing import default_folder
from kwire.spark.paths import local

LEVEL_DEFAULT = "messages"
# These come from `load()` itself.
SPARK_OPTIONS = frozenset({"path", "paths"})
# These say what the source gives, not how a capture is read.
OWN_OPTIONS = frozenset({"level", "columns", "filter", "push_filters"})


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return text.lower() == "true"


def _listed(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _words(text: str) -> frozenset[str]:
    return frozenset(_listed(text))


def _ports(text: str) -> frozenset[int]:
    ports = frozenset(int(word) for word in _words(text))
    if not all(0 < port < 65_536 for port in ports):
        raise ValueError("expected port numbers from 1 to 65535")
    return ports


def _topics(text: str) -> dict[str, str]:
    topics = json.loads(text)
    if not isinstance(topics, dict) or not all(isinstance(name, str) for name in topics.values()):
        raise ValueError('expected a JSON object, as {"id": "name"}')
    return topics


def _edition(text: str) -> str:
    if text not in EDITIONS:
        raise ValueError(f"expected one of {', '.join(EDITIONS)}")
    return text


def _key_log(path: str) -> str:
    """The file is read where the query is made: executors get its lines."""
    return read_key_logs([path])


PARSERS: dict[str, Callable[[str], Any]] = {
    "edition": _edition,
    "ports": _ports,
    "apis": _words,
    "show_secrets": _boolean,
    "payload": _boolean,
    "bodies": _boolean,
    "topics": _topics,
    "frame_size_max": int,
    "tls_keylog": _key_log,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """How captures become tasks. `index`: where indexes are kept, `beside` or a folder; None makes none.

    `names`: rows know the names of topics that all files of the `set` tell, or those that their own `file` told before.
    `disorder`: packets of a file are in the order of their times, but for so many seconds; None where nobody knows.
    """

    index: str | None
    names: str = "set"
    disorder: float | None = 60
    across_files: bool = False
    task_bytes: int = 128 * 1024 * 1024

    def takes_apart(self, size: int) -> bool:
        """Whether a file of this size is read connection by connection."""
        return self.across_files or size > self.task_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """How a folder of rolling captures is followed."""

    state: str
    tasks: int = 4
    closed_after_s: float = 60
    timeout_s: float = 600
    files_max: int | None = None
    bytes_max: int | None = None

    @property
    def timeout_ns(self) -> int:
        """The same in the unit of captures."""
        return int(self.timeout_s * 1_000_000_000)


def _positive(text: str) -> int:
    if int(text) <= 0:
        raise ValueError("expected a number above 0")
    return int(text)


def _seconds(text: str) -> float:
    if not 0 <= float(text) < float("inf"):
        raise ValueError("expected seconds, 0 or more")
    return float(text)


def _disorder(text: str) -> float | None:
    return None if text == "any" else _seconds(text)


def _folder(text: str) -> str:
    return os.path.abspath(local(text, "this folder is"))


def _place(text: str) -> str | None:
    return {"none": None, "beside": "beside", "cache": default_folder()}.get(text, _folder(text))


def _names(text: str) -> str:
    if text not in ("set", "file"):
        raise ValueError("expected set or file")
    return text


PLAN_PARSERS: dict[str, Callable[[str], Any]] = {
    "index": _place,
    "names": _names,
    "across_files": _boolean,
    "task_bytes": _positive,
    "disorder": _disorder,
}

# By the name of the option as Spark hands it over: the field of `StreamOptions`, and what makes a value.
STREAM_PARSERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "state": ("state", _folder),
    "stream_tasks": ("tasks", _positive),
    "closed_after": ("closed_after_s", _seconds),
    "state_timeout": ("timeout_s", _seconds),
    "maxfilespertrigger": ("files_max", _positive),
    "maxbytespertrigger": ("bytes_max", _positive),
}


def plan(given: Mapping[str, str]) -> PlanOptions:
    """The options that only `read` has.

    Raises: ValueError for a value that does not fit.
    """
    values = {name: _value(name, given[name], parser) for name, parser in PLAN_PARSERS.items() if name in given}
    return PlanOptions(**{"index": default_folder(), **values})


def stream(given: Mapping[str, str]) -> StreamOptions:
    """The options that only `readStream` has.

    Raises: ValueError without a state folder, or for a value that does not fit.
    """
    if not given.get("state"):
        raise ValueError(
            "readStream needs option state: a folder that driver and workers see, one for each query, as its checkpoint"
        )
    values = {
        field: _value(name, given[name], parse) for name, (field, parse) in STREAM_PARSERS.items() if name in given
    }
    if {"files_max", "bytes_max"} <= values.keys():
        raise ValueError("of maxFilesPerTrigger and maxBytesPerTrigger only one can be given")
    return StreamOptions(**values)


def condition(given: Mapping[str, str]) -> str:
    """The text of option `filter`, empty where it is not given.

    Raises: ValueError when it states no condition on the level.
    """
    text = given.get("filter", "")
    if text:
        asked = _value("filter", text, lambda text: Where(text, level(given)))
        if (
            level(given) == "records"
            and given.get("payload", "").lower() != "true"
            and asked.columns & {"key", "value"}
        ):
            raise ValueError("option filter: keys and values of records are there with option payload")
    return text


def pushes_filters(given: Mapping[str, str]) -> bool:
    """Whether Spark may hand over the filters of a query."""
    return bool(_value("push_filters", given.get("push_filters", "false"), _boolean))


def level(given: Mapping[str, str]) -> str:
    """The level asked for.

    Raises: ValueError that names the levels there are.
    """
    name = given.get("level", LEVEL_DEFAULT)
    if name not in LEVELS:
        raise ValueError(f"option level is {name!r}, and may be {', '.join(LEVELS)}")
    return name


def columns(given: Mapping[str, str]) -> list[str]:
    """The columns asked for by option `columns`, in the order named; all of the level without it.

    Raises: ValueError that names the columns there are.
    """
    known = [column.name for column in columns_of(level(given))]
    wanted = list(dict.fromkeys(_listed(given.get("columns", "")))) or known
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise ValueError(f"level {level(given)} has no column {', '.join(unknown)}; it has {', '.join(known)}")
    return wanted


def parse(given: Mapping[str, str], *, is_stream: bool = False) -> Options:
    """The options for the reader of captures; what `plan` or `stream` reads is passed over here.

    Raises: ValueError for an unknown option or a value that does not fit.
    """
    own, other = (STREAM_PARSERS, PLAN_PARSERS) if is_stream else (PLAN_PARSERS, STREAM_PARSERS)
    passed = SPARK_OPTIONS | OWN_OPTIONS | own.keys()
    wanted = {name: text for name, text in given.items() if name not in passed}
    unknown = sorted(wanted.keys() - PARSERS.keys())
    if unknown:
        if set(unknown) <= other.keys():
            raise ValueError(f"option {', '.join(unknown)} is for {'read' if is_stream else 'readStream'} only")
        known = ", ".join([*sorted(OWN_OPTIONS), *PARSERS, *own])
        raise ValueError(f"kafka_capture has no option {', '.join(unknown)}; it has {known}")
    return Options(**{name: _value(name, text, PARSERS[name]) for name, text in wanted.items()})


def _value(name: str, text: str, parser: Callable[[str], Any]) -> Any:
    try:
        return parser(text)
    except ValueError as error:
        raise ValueError(f"option {name} is {text!r}: {error}") from error
