"""Formatting of numbers, durations, times and names for the report; what is not known is shown as a dash."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kwire.report.round_times import DAY_US, HOUR_US, MINUTE_US

# A name from the wire may have 32,767 characters; longer ones are cut to this.
NAME_LIMIT = 80

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def count(value: int | None) -> str:
    """12,345."""
    return "-" if value is None else f"{value:,}"


def number(value: int | None) -> str:
    """An offset or id without thousands separators, to be copied and searched."""
    return "-" if value is None else str(value)


def name(value: str) -> str:
    """A name from the wire, cut if it is long."""
    if len(value) > NAME_LIMIT:
        return f"{value[:NAME_LIMIT]}\N{HORIZONTAL ELLIPSIS} ({len(value) - NAME_LIMIT:,} more)"
    return value or "(no name)"


def name_or_dash(value: str | None) -> str:
    """A name from the wire; a dash if it is missing or empty."""
    return name(value) if value else "-"


def partition(topic: str | None, index: int | None) -> str:
    """A partition as topic-partition, the notation of Kafka."""
    return "-" if topic is None and index is None else f"{name_or_dash(topic)}-{number(index)}"


def path(value: str) -> str:
    """A file's path; of a long path only the end."""
    return value if len(value) <= NAME_LIMIT else f"\N{HORIZONTAL ELLIPSIS}{value[-NAME_LIMIT:]}"


def file(value: str) -> str:
    """The last part of a file's path, for tables where the whole path is listed elsewhere."""
    return name(value.rsplit("/", 1)[-1])


def size(value: int | None) -> str:
    """Bytes in a suitable unit: 512 B, 1.5 KiB, 3.2 MiB."""
    if value is None:
        return "-"
    if value < 1024:
        return f"{value} B"
    amount, unit = value / 1024, "KiB"
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 999.5 or unit == "TiB":
            break
        amount /= 1024
    return f"{amount:.3g} {unit}" if amount < 1000 else f"{amount:,.0f} {unit}"


def plural(value: int, noun: str, plural_noun: str | None = None) -> str:
    """1 request, 2 requests; 1 delivery, 2 deliveries; 1 rule was, 2 rules were."""
    return f"{value:,} {number_form(value, noun, plural_noun)}"


def number_form(value: int, singular: str, plural_form: str | None = None) -> str:
    """The form of a noun or verb after a number: by default the plural has an s."""
    return singular if value == 1 else plural_form or f"{singular}s"


def span(us: int | None) -> str:
    """A duration in a suitable unit: 850 µs, 12.3 ms, 1.25 s, 3 min 5 s, 2 h 10 min."""
    if us is None:
        return "-"
    if us < 1_000:
        return f"{us} µs"
    if us < 999_500:
        return f"{us / 1_000:.3g} ms"
    if us < 120_000_000:
        return f"{us / 1_000_000:.3g} s"
    minutes, seconds = divmod(round(us / 1_000_000), 60)
    if minutes < 120 and (minutes, seconds) != (60, 0):
        return f"{minutes} min {seconds} s" if seconds else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min" if minutes else f"{hours:,} h"


def span_ms(ms: int | None) -> str:
    """A duration that is given in milliseconds."""
    return span(None if ms is None else ms * 1000)


def share(part: int, whole: int) -> str:
    """A percentage; a part above 0 is never rounded to 0 %, and one below the whole never to 100 %."""
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


def moment(us: int | None) -> str:
    """2026-11-21 10:42:03 UTC; a time outside the calendar stays a number."""
    if us is None:
        return "-"
    time = _datetime(us)
    return f"{time:%Y-%m-%d %H:%M:%S} UTC" if time else f"{us} µs"


def clock(us: int | None) -> str:
    """10:42:03.250, for contexts where the day is known."""
    return "-" if us is None else _time_text(us, "%H:%M:%S", digits=3)


def step_time(us: int, *, step_us: int) -> str:
    """The time of a step of this length, as exact as the step: 21 Nov, 21 Nov 10:00, 10:42, 10:42:03, 10:42:03.25."""
    if step_us >= DAY_US:
        return _time_text(us, "%d %b")
    if step_us >= HOUR_US:
        return _time_text(us, "%d %b %H:%M")
    if step_us >= MINUTE_US:
        return _time_text(us, "%H:%M")
    digits = next(digits for digits in range(7) if step_us % 10 ** (6 - digits) == 0)
    return _time_text(us, "%H:%M:%S", digits=digits)


def axis_label(us: int, *, step_us: int, previous_us: int | None) -> str:
    """A time below an axis, without what it has in common with the label before it: after 10:42:03.5 comes :04.

    A leading colon stands for the same hour and minute.
    """
    text = step_time(us, step_us=step_us)
    if previous_us is None or step_us >= DAY_US:
        return text
    previous = step_time(previous_us, step_us=step_us)
    # Days and times of day are separated by the last blank, seconds by the last colon.
    separator = " " if step_us >= HOUR_US else ":" if step_us < MINUTE_US else ""
    if not separator or text.rpartition(separator)[0] != previous.rpartition(separator)[0]:
        return text
    rest = text.rpartition(separator)[2]
    return f":{rest}" if separator == ":" else rest


def _time_text(us: int, pattern: str, *, digits: int = 0) -> str:
    """A time by a pattern, with this many digits of the second's fraction; a time outside the calendar is a number."""
    time = _datetime(us)
    if time is None:
        return str(us)
    fraction = f".{us % 1_000_000:06d}"[: digits + 1] if digits else ""
    return time.strftime(pattern) + fraction


def _datetime(us: int) -> datetime | None:
    try:
        return EPOCH + timedelta(microseconds=us)
    except OverflowError:
        return None
