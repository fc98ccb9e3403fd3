"""Conformance notes: what clients did wrong though the broker accepted it, found in a sequence of decoded exchanges.

`Checker` is a state machine without input or output. The broker's journal and captures feed it the same values.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.conformance.capture_exchanges import find_capture_notes
    from kwire.conformance.checker import Checker, find_notes
    from kwire.conformance.model import ConnectionEnd, ConnectionGap, Level, Note, ObservedExchange
    from kwire.conformance.rules import RULES, Rule

__all__ = [
    "RULES",
    "Checker",
    "ConnectionEnd",
    "ConnectionGap",
    "Level",
    "Note",
    "ObservedExchange",
    "Rule",
    "find_capture_notes",
    "find_notes",
]

#: The modules of the public names.
_MODULES = {
    "RULES": "kwire.conformance.rules",
    "Checker": "kwire.conformance.checker",
    "ConnectionEnd": "kwire.conformance.model",
    "ConnectionGap": "kwire.conformance.model",
    "Level": "kwire.conformance.model",
    "Note": "kwire.conformance.model",
    "ObservedExchange": "kwire.conformance.model",
    "Rule": "kwire.conformance.rules",
    "find_capture_notes": "kwire.conformance.capture_exchanges",
    "find_notes": "kwire.conformance.checker",
}


def __getattr__(name: str) -> object:
    """Import a public name on first use: a broker that looks at its journal loads no reader of captures."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
