"""The attributes and texts of errors."""

from __future__ import annotations

from kwire.errors import MissingExtra, SchemaError, Truncated, WireError


def test_errors_have_path_offset_and_text() -> None:
    cut = Truncated("A.b[2].c", 41, 4, 3)

    assert (cut.path, cut.at, cut.need, cut.have) == ("A.b[2].c", 41, 4, 3)
    assert str(cut) == "A.b[2].c at byte 41: needs 4 bytes, but 3 are left"
    assert isinstance(cut, WireError)
    assert isinstance(cut, ValueError)
    assert str(SchemaError("f.json", "M", "A.B", "reason")) == "f.json: M.A.B: reason"
    assert "pip install 'kwire[spark]'" in str(MissingExtra("A report", "spark"))
