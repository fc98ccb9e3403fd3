"""How the commands write the log to stderr: as text, or as one JSON object a line."""

from __future__ import annotations

import logging
import sys
import time
import traceback
from typing import Any

from kwire.escape import one_line, safe_json
from mockbroker.log.subject_log import ROOT_NAME

#: The values of `--log-format` and of `--log-level`.
FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")


def start_log(*, level: str, log_format: str) -> None:
    """Write the log of the process to stderr, with the warnings of other libraries.

    As `logging.basicConfig`, it does nothing in a process that has a log already.
    """
    root = logging.getLogger()
    if root.handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    root.addHandler(handler)
    number = logging.getLevelNamesMapping()[level.upper()]
    root.setLevel(max(number, logging.WARNING))
    logging.getLogger(ROOT_NAME).setLevel(number)


def _format_time(created_s: float) -> str:
    """Seconds since 1970 as ISO 8601 in UTC with milliseconds: 2026-01-31T12:00:00.250Z."""
    ms = int(created_s * 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(ms // 1000))}.{ms % 1000:03d}Z"


def _format_traceback(record: logging.LogRecord) -> list[str]:
    if not record.exc_info or record.exc_info[0] is None:
        return []
    return "".join(traceback.format_exception(*record.exc_info)).rstrip("\n").split("\n")


class TextFormatter(logging.Formatter):
    """Time in UTC, level, logger and message. The lines of a traceback follow, indented and escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """The text of a record; only indented lines follow its first one."""
        first = f"{_format_time(record.created)} {record.levelname} {record.name}: {one_line(record.getMessage())}"
        return "\n".join([first, *(f"    {one_line(line)}" for line in _format_traceback(record))])


class JsonFormatter(logging.Formatter):
    """One JSON object on one line: timestamp, level, logger, message, and the fields of the line."""

    def format(self, record: logging.LogRecord) -> str:
        """The JSON text of a record."""
        tree: dict[str, Any] = {
            "timestamp": _format_time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        tree.update({name: value for name, value in getattr(record, "fields", {}).items() if name not in tree})
        frames = _format_traceback(record)
        if frames:
            tree["traceback"] = frames
        return safe_json(tree)
