"""The columnar reader: rows, built column by column from the index instead of exchange by exchange.

The rows are those of the streaming pipeline; tests compare both for all captures. Requires the extra `captures`.
"""

from __future__ import annotations

from kwire.capture.optional_dependencies import explain_missing

try:
    from kwire.capture.columnar import body_columns, header_columns
except ModuleNotFoundError as error:
    raise explain_missing("reading a capture by columns", error) from error

COLUMNS = header_columns.COLUMNS | body_columns.COLUMNS
"""The columns of messages that are built for all exchanges at once; session and JSON columns need decoded messages."""
