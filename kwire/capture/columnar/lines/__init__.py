"""Output lines of captures: tables and JSON, of files and of streams."""
