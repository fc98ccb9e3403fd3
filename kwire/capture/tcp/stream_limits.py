"""Limits and times of the reassembly of TCP streams. Source: RFC 9293, and what captures of real traffic show."""

# Without a SYN the first packets may come in any order: after so many packets the lowest number is taken as the start.
START_PACKETS = 16
# A SYN whose number is this near to the start of the data, early in a connection, is only late.
LATE_SYN_DISTANCE = 1 << 16
# How long after its end a connection may still receive late packets.
LINGER_NS = 5_000_000_000
# New bytes that come so long after a reset show that the reset had no effect: it was forged, or late itself.
RESET_EFFECT_NS = 1_000_000_000
# After so many packets of the connection, a gap that its receiver has acknowledged is taken as lost by the capture.
# Captures are out of order by a few packets even on loopback.
REORDER_PACKETS_MAX = 64
# How much may be buffered after a gap that is never acknowledged (a capture of one direction only).
BUFFERED_COUNT_MAX = 4096
BUFFERED_SIZE_MAX = 32 * 1024 * 1024
# How far before the next byte a segment may lie: no sender has more data in flight. A segment further back belongs to
# another connection of the same ports.
RESENT_DISTANCE_MAX = 256 * 1024 * 1024
