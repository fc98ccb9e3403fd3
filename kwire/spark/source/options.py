"""Parsing of the options of `kafka_capture`: Spark passes them as text with lower-cased names."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kwire.capture.display_filter.display_filter import DisplayFilter
from kwire.capture.files.sizes import parse_size
from kwire.capture.options import Options
from kwire.capture.rows.columns import LEVELS
from kwire.capture.rows.columns import level_columns as columns_of
from kwire.capture.tls.key_log import read_key_logs
from kwire.registry import EDITIONS
from kwire.spark.indexing.index_folder import default_index_folder
from kwire.spark.paths import local_path

LEVEL_DEFAULT = "messages"
# These come from `load()` itself.
SPARK_OPTIONS = frozenset({"path", "paths"})
# These choose rows and columns, not how a capture is read.
OWN_OPTIONS = frozenset({"level", "columns", "filter", "push_filters"})


def _parse_boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return text.lower() == "true"


def _parse_list(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _parse_set(text: str) -> frozenset[str]:
    return frozenset(_parse_list(text))


def _parse_ports(text: str) -> frozenset[int]:
    ports = frozenset(int(word) for word in _parse_set(text))
    if not all(0 < port < 65_536 for port in ports):
        raise ValueError("expected port numbers from 1 to 65535")
    return ports


def _parse_topics(text: str) -> dict[str, str]:
    topics = json.loads(text)
    if not isinstance(topics, dict) or not all(isinstance(name, str) for name in topics.values()):
        raise ValueError('expected a JSON object, as {"id": "name"}')
    return topics


def _parse_edition(text: str) -> str:
    if text not in EDITIONS:
        raise ValueError(f"expected one of {', '.join(EDITIONS)}")
    return text


def _parse_key_log(path: str) -> str:
    """The lines of the file, which is read where the query is made: executors receive its lines, not its path."""
    return read_key_logs([path])


PARSERS: dict[str, Callable[[str], Any]] = {
    "edition": _parse_edition,
    "ports": _parse_ports,
    "apis": _parse_set,
    "show_secrets": _parse_boolean,
    "payload": _parse_boolean,
    "bodies": _parse_boolean,
    "topics": _parse_topics,
    "frame_size_max": int,
    "unpacked_size_max": parse_size,
    "tls_keylog": _parse_key_log,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """How captures are divided into tasks. `index`: where indexes are stored, `beside` or a folder; None builds none.

    `names`: topic names come from all files of the `set`, or from earlier messages of the row's own `file`.
    `disorder`: by how many seconds packets of a file may be out of time order; None where no limit is known.
    """

    index: str | None
    names: str = "set"
    disorder: float | None = 60
    across_files: bool = False
    task_bytes: int = 128 * 1024 * 1024

    def splits_file(self, size: int) -> bool:
        """Whether a file of this size is read connection by connection."""
        return self.across_files or size > self.task_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """How a folder of rotated captures is read as a stream."""

    state: str
    tasks: int = 4
    closed_after_s: float = 60
    timeout_s: float = 600
    files_max: int | None = None
    bytes_max: int | None = None

    @property
    def timeout_ns(self) -> int:
        """The timeout in nanoseconds, the unit of capture times."""
        return int(self.timeout_s * 1_000_000_000)


def _parse_positive(text: str) -> int:
    if int(text) <= 0:
        raise ValueError("expected a number above 0")
    return int(text)


def _parse_seconds(text: str) -> float:
    if not 0 <= float(text) < float("inf"):
        raise ValueError("expected seconds, 0 or more")
    return float(text)


def _parse_disorder(text: str) -> float | None:
    return None if text == "any" else _parse_seconds(text)


def _parse_folder(text: str) -> str:
    return os.path.abspath(local_path(text, "this folder is"))


def _parse_index_place(text: str) -> str | None:
    return {"none": None, "beside": "beside", "cache": default_index_folder()}.get(text, _parse_folder(text))


def _parse_names(text: str) -> str:
    if text not in ("set", "file"):
        raise ValueError("expected set or file")
    return text


PLAN_PARSERS: dict[str, Callable[[str], Any]] = {
    "index": _parse_index_place,
    "names": _parse_names,
    "across_files": _parse_boolean,
    "task_bytes": _parse_positive,
    "disorder": _parse_disorder,
}

# By the name of the option as Spark passes it: the field of `StreamOptions`, and the parser of its value.
STREAM_PARSERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "state": ("state", _parse_folder),
    "stream_tasks": ("tasks", _parse_positive),
    "closed_after": ("closed_after_s", _parse_seconds),
    "state_timeout": ("timeout_s", _parse_seconds),
    "maxfilespertrigger": ("files_max", _parse_positive),
    "maxbytespertrigger": ("bytes_max", _parse_positive),
}


def parse_plan_options(option_texts: Mapping[str, str]) -> PlanOptions:
    """Parse the options that only `read` has.

    Raises: ValueError for a value that does not fit.
    """
    parsers = {name: parser for name, parser in PLAN_PARSERS.items() if name in option_texts}
    values = {name: _parse_value(name, option_texts[name], parser) for name, parser in parsers.items()}
    return PlanOptions(**{"index": default_index_folder(), **values})


def parse_stream_options(option_texts: Mapping[str, str]) -> StreamOptions:
    """Parse the options that only `readStream` has.

    Raises: ValueError without a state folder, or for a value that does not fit.
    """
    if not option_texts.get("state"):
        folder = "a folder of its own for each query, which driver and workers can access"
        raise ValueError(f"readStream needs option state: {folder}")
    parsers = {name: parser for name, parser in STREAM_PARSERS.items() if name in option_texts}
    values = {field: _parse_value(name, option_texts[name], parser) for name, (field, parser) in parsers.items()}
    if {"files_max", "bytes_max"} <= values.keys():
        raise ValueError("only one of maxFilesPerTrigger and maxBytesPerTrigger can be option_texts")
    return StreamOptions(**values)


def parse_filter(option_texts: Mapping[str, str]) -> str:
    """The checked text of option `filter`, empty where it is not option_texts.

    Raises: ValueError when it states no condition on the level.
    """
    text = option_texts.get("filter", "")
    if text:
        level = parse_level(option_texts)
        display_filter = _parse_value("filter", text, lambda text: DisplayFilter(text, level))
        has_payload = option_texts.get("payload", "").lower() == "true"
        if level == "records" and not has_payload and display_filter.columns & {"key", "value"}:
            raise ValueError("option filter: keys and values of records are read only with option payload")
    return text


def parse_push_filters(option_texts: Mapping[str, str]) -> bool:
    """Whether Spark may push the filters of a query down to the reader."""
    return bool(_parse_value("push_filters", option_texts.get("push_filters", "false"), _parse_boolean))


def parse_level(option_texts: Mapping[str, str]) -> str:
    """The requested level.

    Raises: ValueError that names the existing levels.
    """
    name = option_texts.get("level", LEVEL_DEFAULT)
    if name not in LEVELS:
        raise ValueError(f"option level is {name!r}, and may be {', '.join(LEVELS)}")
    return name


def parse_columns(option_texts: Mapping[str, str]) -> list[str]:
    """The columns of option `columns`, in its order; without it all columns of the level.

    Raises: ValueError that names the existing columns.
    """
    level = parse_level(option_texts)
    known = [column.name for column in columns_of(level)]
    columns = list(dict.fromkeys(_parse_list(option_texts.get("columns", "")))) or known
    unknown = [name for name in columns if name not in known]
    if unknown:
        raise ValueError(f"level {level} has no column {', '.join(unknown)}; it has {', '.join(known)}")
    return columns


def parse_reader_options(option_texts: Mapping[str, str], *, is_stream: bool = False) -> Options:
    """Parse the options of the capture reader; those of `parse_plan_options` and `parse_stream_options` are skipped.

    Raises: ValueError for an unknown option or a value that does not fit.
    """
    mode_parsers, other_mode_parsers = (STREAM_PARSERS, PLAN_PARSERS) if is_stream else (PLAN_PARSERS, STREAM_PARSERS)
    skipped = SPARK_OPTIONS | OWN_OPTIONS | mode_parsers.keys()
    reader_texts = {name: text for name, text in option_texts.items() if name not in skipped}
    unknown = sorted(reader_texts.keys() - PARSERS.keys())
    if unknown:
        if set(unknown) <= other_mode_parsers.keys():
            raise ValueError(f"option {', '.join(unknown)} is for {'read' if is_stream else 'readStream'} only")
        known = ", ".join([*sorted(OWN_OPTIONS), *PARSERS, *mode_parsers])
        raise ValueError(f"kafka_capture has no option {', '.join(unknown)}; it has {known}")
    return Options(**{name: _parse_value(name, text, PARSERS[name]) for name, text in reader_texts.items()})


def _parse_value(name: str, text: str, parser: Callable[[str], Any]) -> Any:
    try:
        return parser(text)
    except ValueError as error:
        raise ValueError(f"option {name} is {text!r}: {error}") from error
