"""Where a case is: the line that its thread runs, for cases that do not end."""

from __future__ import annotations

import inspect
import linecache
import sys
from collections.abc import Callable


def find_position(thread_id: int, function: Callable[..., object]) -> str | None:
    """The source line of the function's module that a thread runs, the innermost one; None if it runs none."""
    original = inspect.unwrap(function)  # The decorator `acknowledged` is not where the case is.
    file = original.__code__.co_filename if hasattr(original, "__code__") else None
    frame = sys._current_frames().get(thread_id)
    while frame is not None and frame.f_code.co_filename != file:
        frame = frame.f_back
    return None if frame is None else linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip() or None
