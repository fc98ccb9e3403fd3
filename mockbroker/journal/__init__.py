"""What was said on the wire: every exchange in order, in memory and, when asked for, as a capture file."""

from mockbroker.journal.exchange import Exchange
from mockbroker.journal.journal import Journal

__all__ = ["Exchange", "Journal"]
