"""Pure state machines: offsets, members and records, never a request, a clock or a socket."""
