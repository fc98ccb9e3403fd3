"""Numbers, spans and moments as a reader of the report wants to see them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

# A name from the wire may have 32,767 characters; more than this helps no reader.
NAME_LIMIT = 80

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def count(value: int) -> str:
    """12,345."""
    return f"{value:,}"


def name(value: str) -> str:
    """A name from the wire, of bearable length."""
    if len(value) > NAME_LIMIT:
        return f"{value[:NAME_LIMIT]}\N{HORIZONTAL ELLIPSIS} ({len(value) - NAME_LIMIT:,} more)"
    return value or "(no name)"


def path(value: str) -> str:
    """A file's path; of a long one the end, which tells more than its beginning."""
    return value if len(value) <= NAME_LIMIT else f"\N{HORIZONTAL ELLIPSIS}{value[-NAME_LIMIT:]}"


def file(value: str) -> str:
    """The last part of a file's path: where there is little room, and the whole path stands elsewhere."""
    return name(value.rsplit("/", 1)[-1])


def size(value: int) -> str:
    """Bytes in the unit that fits: 512 B, 1.5 KiB, 3.2 MiB."""
    if value < 1024:
        return f"{value} B"
    amount, unit = value / 1024, "KiB"
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 999.5 or unit == "TiB":
            break
        amount /= 1024
    return f"{amount:.3g} {unit}" if amount < 1000 else f"{amount:,.0f} {unit}"


def plural(value: int, noun: str) -> str:
    """1 request, 2 requests."""
    return f"{value:,} {noun}{'' if value == 1 else 's'}"


def span(us: int) -> str:
    """A length of time in the unit that fits: 850 µs, 12.3 ms, 1.25 s, 3 min 5 s, 2 h 10 min."""
    if us < 1_000:
        return f"{us} µs"
    if us < 999_500:
        return f"{us / 1_000:.3g} ms"
    if us < 120_000_000:
        return f"{us / 1_000_000:.3g} s"
    minutes, seconds = divmod(round(us / 1_000_000), 60)
    if minutes < 120:
        return f"{minutes} min {seconds} s" if seconds else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min" if minutes else f"{hours:,} h"


def share(part: int, whole: int) -> str:
    """A percentage that never rounds something to nothing, nor almost all to all."""
    if not whole or not part:
        return "0 %"
    percent = 100 * part / whole
    if percent < 0.1:
        return "< 0.1 %"
    return "> 99.9 %" if 99.9 < percent < 100 else f"{percent:.3g} %"


def ordinal(value: int) -> str:
    """1st, 2nd, 3rd, 11th."""
    suffix = "th" if value % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")
    return f"{value}{suffix}"


def moment(us: int) -> str:
    """2026-11-21 10:42:03 UTC; a time that no calendar holds stays a number."""
    found = _datetime(us)
    return f"{found:%Y-%m-%d %H:%M:%S} UTC" if found else f"{us} µs"


def clock(us: int) -> str:
    """10:42:03, for places where the day is known."""
    found = _datetime(us)
    return f"{found:%H:%M:%S}" if found else str(us)


def axis_label(us: int, *, start_us: int, step_us: int) -> str:
    """A time below an axis: the time of day where the steps are seconds, else the distance from the start."""
    found = _datetime(us)
    if found is None or step_us < 1_000_000:
        return f"+{span(us - start_us)}" if us != start_us else "0"
    if step_us >= 3_600_000_000:
        return f"{found:%d %b %H:%M}"
    return f"{found:%H:%M:%S}" if step_us < 60_000_000 else f"{found:%H:%M}"


def _datetime(us: int) -> datetime | None:
    try:
        return EPOCH + timedelta(microseconds=us)
    except OverflowError:
        return None
