"""`SubjectLog`: the lines about one subject, with their fields, for Python's `logging`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

from kwire.escape import one_line
from mockbroker.log.repetitions import REPETITIONS, LineKind, Repetitions

#: The name of the logger above those of all subjects.
ROOT_NAME = "mockbroker"
#: The maximum length of a text in a field, and of a message, characters.
FIELD_MAX, MESSAGE_MAX = 500, 2000
#: How many frames of this module are on the stack when a record is made: its caller is found above them.
_OWN_FRAMES = 4

# Without a handler Python prints warnings on stderr; a program that has a cluster decides that itself.
logging.getLogger(ROOT_NAME).addHandler(logging.NullHandler())


class LogLine(NamedTuple):
    """A line that may be logged. template: its text with %(name)s for fields. fields: as they came from the wire."""

    logger: logging.Logger
    level: int
    template: str
    fields: Mapping[str, object]

    def write(self, *, traceback_of: BaseException | None = None, own_frames: int = _OWN_FRAMES) -> None:
        """Log the line, bounded and escaped. The record has its fields as the attribute `fields`.

        traceback_of: an exception.
        """
        fields = {name: _bound(value, FIELD_MAX) for name, value in self.fields.items()}
        message = one_line(str(_bound(self.template % fields, MESSAGE_MAX)))
        self.logger.log(self.level, message, exc_info=traceback_of, extra={"fields": fields}, stacklevel=own_frames)

    def write_count(self, count: int, seconds: float) -> None:
        """Log that so many lines like this one were left out in so many seconds."""
        fields = {**self.fields, "omitted": count, "seconds": round(seconds, 1)}
        template = f"%(omitted)d more like this in %(seconds).1f s: {self.template}"
        LogLine(self.logger, self.level, template, fields).write(own_frames=1)


class SubjectLog:
    """Logs lines about one subject, to the logger `mockbroker.SUBJECT`. Each has the same few texts.

    A template has %(name)s, or %(name)r for a text that a client chooses, for the fields, which are given by their
    names. about: lines with the same template are limited together if they are about the same, as the host of a client.
    """

    def __init__(self, subject: str, repetitions: Repetitions = REPETITIONS) -> None:
        self.logger = logging.getLogger(f"{ROOT_NAME}.{subject}")
        self._repetitions = repetitions

    @property
    def has_info(self) -> bool:
        """Whether lines of the level info are logged; in a program that does not configure the log they are not."""
        return self.logger.isEnabledFor(logging.INFO)

    @property
    def has_debug(self) -> bool:
        """Whether lines of the level debug are logged."""
        return self.logger.isEnabledFor(logging.DEBUG)

    def debug(self, template: str, **fields: object) -> None:
        """Log a line for one who looks for an error; its repetitions are not limited."""
        if self.logger.isEnabledFor(logging.DEBUG):
            LogLine(self.logger, logging.DEBUG, template, fields).write(own_frames=3)

    def info(self, template: str, *, about: str = "", **fields: object) -> None:
        """Log a change of the cluster."""
        self._log(logging.INFO, template, about, fields)

    def warning(self, template: str, *, about: str = "", **fields: object) -> None:
        """Log what a client or the configuration did wrong."""
        self._log(logging.WARNING, template, about, fields)

    def error(self, template: str, error: BaseException, *, about: str = "", **fields: object) -> None:
        """Log an internal error with the traceback of an exception."""
        self._log(logging.ERROR, template, about, fields, traceback_of=error)

    def _log(
        self,
        level: int,
        template: str,
        about: str,
        fields: Mapping[str, object],
        *,
        traceback_of: BaseException | None = None,
    ) -> None:
        if not self.logger.isEnabledFor(level):
            return
        line = LogLine(self.logger, level, template, fields)
        if self._repetitions.admit(LineKind(self.logger.name, template, about[:FIELD_MAX]), line):
            line.write(traceback_of=traceback_of)


def _bound(value: object, limit: int) -> object:
    """A text with its length in place of what is beyond the limit; anything else as it is."""
    if not isinstance(value, str) or len(value) <= limit:
        return value
    return f"{value[:limit]}... ({len(value) - limit} more characters)"
