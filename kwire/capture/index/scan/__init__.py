"""Locate the packets of a capture file and parse their headers, span by span, without payload."""
