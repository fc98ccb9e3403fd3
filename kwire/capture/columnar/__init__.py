"""The columnar reader: rows, built column by column from the index instead of exchange by exchange.

Tests compare the rows with those of a model. Requires the extra `captures`.
"""

from __future__ import annotations

from kwire.capture.optional_dependencies import explain_missing

try:
    from kwire.capture.columnar import body_columns, header_columns
except ModuleNotFoundError as error:
    raise explain_missing("reading a capture", error) from error

COLUMNS = header_columns.COLUMNS | body_columns.COLUMNS
"""The columns of messages that are built for all exchanges at once; session and JSON columns need decoded messages."""
