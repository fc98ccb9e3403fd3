"""The journal: every request and response in order, in memory."""

from mockbroker.journal.exchange import Exchange
from mockbroker.journal.journal import Journal

__all__ = ["Exchange", "Journal"]
