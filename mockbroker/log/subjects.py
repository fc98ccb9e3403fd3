"""The subjects of the log. Their loggers have the names `mockbroker.SUBJECT`; docs/mockbroker.md lists them."""

from __future__ import annotations

from mockbroker.log.subject_log import SubjectLog

#: Start, listeners, configuration, end; internal errors.
SERVER = SubjectLog("server")
#: Topics that were made, deleted, or got partitions.
TOPICS = SubjectLog("topics")
#: Partitions whose leader has changed.
LEADERS = SubjectLog("leaders")
#: Groups with their members and rebalances.
GROUPS = SubjectLog("groups")
#: Nodes that start, stop, are paused or go on.
NODES = SubjectLog("nodes")
#: Connections that were refused or closed, and why.
CONNECTIONS = SubjectLog("connections")
#: Every request, at the level debug.
REQUESTS = SubjectLog("requests")
#: The control over HTTP.
CONTROL = SubjectLog("control")
#: The brokers behind a proxy.
PROXY = SubjectLog("proxy")
#: The data directory: what was mended at the start, and what cannot be written.
STORAGE = SubjectLog("storage")
