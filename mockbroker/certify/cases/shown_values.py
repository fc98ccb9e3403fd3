"""Values as the reports of cases show them: as JSON, in which null and empty differ, and errors by their names."""

from __future__ import annotations

import json
from collections.abc import Set

import msgspec

from mockbroker.certify.driver.messages import ErrorInfo


def show(value: object) -> str:
    """A value as JSON: sets are sorted, errors are texts, bytes are text with escapes."""
    return json.dumps(value, ensure_ascii=False, default=_plain)


def show_errors(*errors: ErrorInfo | None) -> str:
    """The errors of records or calls in order, as "no error; LOCAL_TIMEOUT: not in time"."""
    return "; ".join("no error" if error is None else str(error) for error in errors)


def _plain(value: object) -> object:
    if isinstance(value, ErrorInfo):
        return str(value)
    if isinstance(value, Set):
        return sorted(value)
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return msgspec.to_builtins(value)
