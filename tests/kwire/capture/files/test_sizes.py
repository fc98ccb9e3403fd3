"""Sizes with units."""

from __future__ import annotations

import pytest

from kwire.capture.files.sizes import parse_size


def test_sizes_are_bytes_or_have_a_unit() -> None:
    assert [parse_size(text) for text in ("1000", "512M", "4g", "2 ".strip(), "1KiB", "3TB")] == [
        1000,
        512 << 20,
        4 << 30,
        2,
        1024,
        3 << 40,
    ]


@pytest.mark.parametrize("text", ["", "0", "-1", "4.5G", "M", "4X", "1" * 16])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="as 512M or 4G"):
        parse_size(text)
