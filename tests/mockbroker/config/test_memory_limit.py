"""The limit of the memory for logs: sizes with units, `none`, and half of the machine's memory by default."""

from __future__ import annotations

import os

import pytest

from mockbroker.config.broker_config import ConfigError
from mockbroker.config.memory_limit import default_memory_limit, parse_memory_limit


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (1_000, 1_000),
        ("1000", 1_000),
        ("512MiB", 512 << 20),
        ("512M", 512 << 20),
        ("2 GB", 2 << 30),
        ("2g", 2 << 30),
        ("1KiB", 1_024),
        ("none", None),
        ("None", None),
    ],
)
def test_sizes(text: int | str, size: int | None) -> None:
    assert parse_memory_limit(text) == size


@pytest.mark.parametrize("text", [0, -1, "0", "-1M", "half", "", "1.5G", "5 apples", "٣M", "50%"])
def test_anything_else_is_refused_with_what_was_given(text: int | str) -> None:
    with pytest.raises(ConfigError, match="is no size above 0, as 512MiB or 2GiB, and not 'none'"):
        parse_memory_limit(text)


def test_by_default_at_most_half_of_the_machine() -> None:
    default = parse_memory_limit(None)

    assert default == default_memory_limit()
    if hasattr(os, "sysconf"):
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        assert default is not None
        assert 0 < default <= machine // 2
