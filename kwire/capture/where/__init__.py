"""Conditions over the rows of a level, as `kwire decode --filter` takes them: `api=ShareFetch and error!=0`.

`tokens` cuts the text, `syntax` makes a `condition` of it, `fields` knows what a name means on a level, `operands`
what may stand behind an operator, `pattern` the regular expressions of `~`. `docs/captures.md` ("Filters") is its page.
"""

from __future__ import annotations

from kwire.capture.where.tokens import FilterError
from kwire.capture.where.where import Where

__all__ = ["FilterError", "Where"]
