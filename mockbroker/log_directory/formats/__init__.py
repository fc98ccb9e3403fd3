"""The contents of the files of a log directory as values; nothing here opens a file."""
