"""The exceptions of kwire: invalid bytes, invalid values, invalid schemas, missing packages."""

from __future__ import annotations


class WireError(ValueError):
    """Bytes or values that the protocol does not allow.

    `path` names the field from the message down, `ShareFetchRequest.topics[2].topic_id`;
    `at` is the offset in the decoded bytes, None where the error is about a value.
    """

    __module__ = "kwire"

    def __init__(self, path: str, at: int | None = None, what: str = "is not what the protocol allows") -> None:
        self.path = path
        self.at = at
        self.what = what
        where = path if at is None else f"{path} at byte {at}"
        super().__init__(f"{where}: {what}" if where else what)


class Truncated(WireError):
    """The bytes end before the field does, or a length exceeds the bytes that are left."""

    __module__ = "kwire"

    def __init__(self, path: str, at: int, need: int, have: int) -> None:
        self.need = need
        self.have = have
        super().__init__(path, at, f"needs {need} bytes, but {have} are left")


class InvalidLength(WireError):
    """An impossible length: negative, or above a documented limit."""

    __module__ = "kwire"


class InvalidVarint(WireError):
    """A variable-length integer of too many bytes, or beyond its type."""

    __module__ = "kwire"


class InvalidTag(WireError):
    """A tagged field that is repeated, out of order, or not of its declared size."""

    __module__ = "kwire"


class UnexpectedNull(WireError):
    """A null in a field that cannot be null in this version."""

    __module__ = "kwire"


class TrailingBytes(WireError):
    """Bytes behind the end of the message."""

    __module__ = "kwire"


class InvalidUtf8(WireError):
    """A string that is not UTF-8."""

    __module__ = "kwire"


class InvalidBoolean(WireError):
    """A boolean that is neither 0 nor 1."""

    __module__ = "kwire"


class InvalidValue(WireError):
    """A Python or JSON value that does not fit its field."""

    __module__ = "kwire"


class CorruptRecords(WireError):
    """A record batch that contradicts itself: its checksum, magic, counts or lengths."""

    __module__ = "kwire"


class LimitExceeded(WireError):
    """More data than a documented limit allows, as in a decompression bomb."""

    __module__ = "kwire"


class UnsupportedCodec(WireError):
    """A compression codec that does not exist, or not for this format of batches."""

    __module__ = "kwire"


class UnsupportedVersion(WireError):
    """A combination of message, version, edition and field that does not exist."""

    __module__ = "kwire"

    def __init__(self, path: str, what: str) -> None:
        super().__init__(path, None, what)


class MissingExtra(ImportError):
    """A part of kwire needs optional packages; the message names the install command."""

    __module__ = "kwire"

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs more than the core of kwire: {install_command(extra)}")
        self.extra = extra


def install_command(extra: str) -> str:
    """The command that installs an extra: from where this package is, a checkout or else the package index."""
    import shlex  # Every start loads this module, and few need the others.

    source = _find_source()
    if source is None:
        return f"pip install 'kwire[{extra}]'"
    folder, is_editable = source
    return f"pip install {'-e ' if is_editable else ''}{shlex.quote(f'{folder}[{extra}]')}"


def _find_source() -> tuple[str, bool] | None:
    """The checkout from which this package was installed, and whether it is used in place. Source: PEP 610."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from pathlib import Path
    from urllib.parse import unquote, urlsplit

    try:
        text = distribution("kwire").read_text("direct_url.json")
    except PackageNotFoundError:
        text = None
    origin = json.loads(text) if text else {}
    url = urlsplit(str(origin.get("url", "")))
    if url.scheme == "file" and Path(unquote(url.path)).is_dir():
        return unquote(url.path), bool(origin.get("dir_info", {}).get("editable"))
    root = Path(__file__).resolve().parents[1]
    return (str(root), True) if (root / "setup.cfg").exists() else None


class SchemaError(ValueError):
    """A schema file that cannot be used: names the file, message, field and reason."""

    __module__ = "kwire"

    def __init__(self, file: str, message: str, field: str, reason: str) -> None:
        self.file = file
        self.message = message
        self.field = field
        self.reason = reason
        where = ".".join(part for part in (message, field) if part)
        super().__init__(f"{file}: {where}: {reason}" if where else f"{file}: {reason}")
