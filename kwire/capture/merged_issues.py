"""Issues of a capture, merged by kind, so that any number of them takes little memory."""

from __future__ import annotations

from collections.abc import Iterable

from kwire.capture.model import CaptureIssue

# Limit of issues that are not merged with others of their kind: a file may report dropped packets in any number.
_SEPARATE_MAX = 1000
# Kinds of packet issues that are merged only if their details are equal, as issues of files are.
_KINDS_BY_DETAIL = frozenset({"encapsulated", "link_type"})


class MergedIssues:
    """The first issue of each kind, with the number of packets of all; issues of files only if details are equal.

    Merged issues can be merged again.
    """

    def __init__(self) -> None:
        """There are no issues yet."""
        self._issues: dict[str, tuple[int, CaptureIssue]] = {}

    def add(self, number: int, issue: CaptureIssue) -> None:
        """Add an issue, found at the packet of this number."""
        key = issue.kind
        if not issue.packet or issue.kind in _KINDS_BY_DETAIL:
            own = f"{issue.kind} {issue.detail}"
            key = own if own in self._issues or len(self._issues) < _SEPARATE_MAX else key
        if key in self._issues:
            number, first = self._issues[key]
            issue = first._replace(packets=first.packets + issue.packets)
        self._issues[key] = number, issue

    @property
    def numbered(self) -> list[tuple[int, CaptureIssue]]:
        """The issues in the order of the first ones, each with the number of the packet at which it was found."""
        return list(self._issues.values())


def merge_numbered(issues: Iterable[tuple[int, CaptureIssue]]) -> list[tuple[int, CaptureIssue]]:
    """Merge issues, each with the number of a packet."""
    merged = MergedIssues()
    for number, issue in issues:
        merged.add(number, issue)
    return merged.numbered
