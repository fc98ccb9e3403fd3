"""The fast lane: rows of clean flows straight from the index, without walking through the generators.

What comes out is what the generators give; tests hold both equal on every capture there is. It needs numpy and pyarrow.
"""

from __future__ import annotations

from kwire.capture.lane import decoded, plain

COLUMNS = plain.COLUMNS | decoded.COLUMNS
"""The columns of messages that are made for all exchanges at once; sessions and JSON need messages as objects."""
