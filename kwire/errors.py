"""The exceptions of kwire: invalid bytes, invalid values, invalid schemas, missing packages."""

from __future__ import annotations


class WireError(ValueError):
    """Bytes or values that the protocol does not allow.

    `path` names the field from the message down, `ShareFetchRequest.topics[2].topic_id`;
    `at` is the offset in the decoded bytes, None where the error is about a value.
    """

    def __init__(self, path: str, at: int | None = None, what: str = "is not what the protocol allows") -> None:
        self.path = path
        self.at = at
        self.what = what
        where = path if at is None else f"{path} at byte {at}"
        super().__init__(f"{where}: {what}" if where else what)


class Truncated(WireError):
    """The bytes end before the field does, or a length exceeds the bytes that are left."""

    def __init__(self, path: str, at: int, need: int, have: int) -> None:
        self.need = need
        self.have = have
        super().__init__(path, at, f"needs {need} bytes, but {have} are left")


class InvalidLength(WireError):
    """An impossible length: negative, or above a documented limit."""


class InvalidVarint(WireError):
    """A variable-length integer of too many bytes, or beyond its type."""


class InvalidTag(WireError):
    """A tagged field that is repeated, out of order, or not of its declared size."""


class UnexpectedNull(WireError):
    """A null in a field that cannot be null in this version."""


class TrailingBytes(WireError):
    """Bytes behind the end of the message."""


class InvalidUtf8(WireError):
    """A string that is not UTF-8."""


class InvalidBoolean(WireError):
    """A boolean that is neither 0 nor 1."""


class InvalidValue(WireError):
    """A Python or JSON value that does not fit its field."""


class CorruptRecords(WireError):
    """A record batch that contradicts itself: its checksum, magic, counts or lengths."""


class LimitExceeded(WireError):
    """More data than a documented limit allows, as in a decompression bomb."""


class UnsupportedCodec(WireError):
    """A compression codec that does not exist, or not for this format of batches."""


class UnsupportedVersion(WireError):
    """A combination of message, version, edition and field that does not exist."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(path, None, what)


class MissingExtra(ImportError):
    """A part of kwire needs optional packages; the message names the install command."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs more than the core of kwire: pip install 'kwire[{extra}]'")
        self.extra = extra


class SchemaError(ValueError):
    """A schema file that cannot be used: names the file, message, field and reason."""

    def __init__(self, file: str, message: str, field: str, reason: str) -> None:
        self.file = file
        self.message = message
        self.field = field
        self.reason = reason
        where = ".".join(part for part in (message, field) if part)
        super().__init__(f"{file}: {where}: {reason}" if where else f"{file}: {reason}")
