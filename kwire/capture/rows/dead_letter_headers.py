"""Headers of dead letters: which record of which share group it is, and why it is in the queue (KIP-1191)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.capture.model import Row
    from kwire.records import Record

_DIGITS_MAX = 19
DEAD_LETTER_PREFIX = "__dlq.errors."
"""Names of the headers that the broker adds to a dead letter begin with it."""
#: Column -> header without its prefix.
_TEXTS = {"dlq_group_id": "group", "dlq_topic": "topic", "dlq_reason": "message"}
#: The same of decimal numbers, with the bits of the column.
_NUMBERS = {
    "dlq_partition": ("partition", 31),
    "dlq_offset": ("offset", 63),
    "dlq_delivery_count": ("delivery.count", 15),
}
DEAD_LETTER_COLUMNS = (*_TEXTS, *_NUMBERS)
_NO_COLUMNS: dict[str, object] = dict.fromkeys(DEAD_LETTER_COLUMNS)


def dead_letter_columns(record: Record) -> Row:
    """The columns of a dead letter; None in all of them for other records, and where a header is damaged."""
    if not any(name.startswith(DEAD_LETTER_PREFIX) for name, _ in record.headers):
        return _NO_COLUMNS
    # A copy may have headers of an earlier dead letter: the last one of a name counts.
    texts = {
        name.removeprefix(DEAD_LETTER_PREFIX): value.decode("utf-8", "replace")
        for name, value in record.headers
        if name.startswith(DEAD_LETTER_PREFIX) and value is not None
    }
    numbers = {column: _parse_number(texts.get(name), bits) for column, (name, bits) in _NUMBERS.items()}
    return {**{column: texts.get(name) for column, name in _TEXTS.items()}, **numbers}


def _parse_number(text: str | None, bits: int) -> int | None:
    """A decimal number that is not negative and fits into the column."""
    is_number = text is not None and text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
    number = int(text) if text is not None and is_number else None
    return number if number is not None and number < 1 << bits else None
