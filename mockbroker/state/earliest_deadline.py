"""`EarliestDeadline`: a time before which nothing is due in a cluster, so that a request asks no component."""

from __future__ import annotations

from typing import Final

#: Later than every deadline: there is none.
NEVER_MS: Final = 1 << 62
#: Earlier than every time: the components have to be asked.
UNKNOWN_MS: Final = -NEVER_MS


class EarliestDeadline:
    """`ms` is not later than any deadline of a component, but may be earlier, as deadlines also move and end.

    A component that gets a deadline lowers it where the deadline is earlier; one that would have to compute its
    deadline sets UNKNOWN_MS. Only who has asked all components raises it.
    """

    __slots__ = ("ms",)

    def __init__(self) -> None:
        self.ms: int = UNKNOWN_MS
