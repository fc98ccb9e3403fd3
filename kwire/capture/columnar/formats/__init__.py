"""Formatters of exchanges in columns: rows, record batches, JSON lines, table lines; begin with `exchange_rows`."""
