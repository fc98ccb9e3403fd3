"""A socket-level Kafka cluster in one process, for tests of clients."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mockbroker.broker.group_views import GroupOffset, GroupView, MemberView
    from mockbroker.broker.inspection import SharePartitionView
    from mockbroker.broker.node_views import NodeView, PartitionView, TopicView
    from mockbroker.broker.topic_records import TopicRecord
    from mockbroker.cluster import Cluster
    from mockbroker.cluster_methods.cluster_clock import ClusterClock
    from mockbroker.cluster_methods.waiting import WaitTimeout
    from mockbroker.config.keys import ConfigError
    from mockbroker.faults.cluster_model import ClusterFault
    from mockbroker.faults.fault_error import FaultError
    from mockbroker.faults.model import Fault
    from mockbroker.journal.exchange import Exchange
    from mockbroker.journal.request_history import RequestHistory
    from mockbroker.kafka_error import KafkaError
    from mockbroker.net.listener_views import ListenerView
    from mockbroker.proxy.proxy import Proxy
    from mockbroker.security.issued_certificates import IssuedCertificate

    __version__: str

__all__ = [
    "Cluster",
    "ClusterClock",
    "ClusterFault",
    "ConfigError",
    "Exchange",
    "Fault",
    "FaultError",
    "GroupOffset",
    "GroupView",
    "IssuedCertificate",
    "KafkaError",
    "ListenerView",
    "MemberView",
    "NodeView",
    "PartitionView",
    "Proxy",
    "RequestHistory",
    "SharePartitionView",
    "TopicRecord",
    "TopicView",
    "WaitTimeout",
]

#: The module of every public name.
_MODULES = {
    "Cluster": "mockbroker.cluster",
    "ClusterClock": "mockbroker.cluster_methods.cluster_clock",
    "ClusterFault": "mockbroker.faults.cluster_model",
    "ConfigError": "mockbroker.config.keys",
    "Exchange": "mockbroker.journal.exchange",
    "Fault": "mockbroker.faults.model",
    "FaultError": "mockbroker.faults.fault_error",
    "GroupOffset": "mockbroker.broker.group_views",
    "GroupView": "mockbroker.broker.group_views",
    "IssuedCertificate": "mockbroker.security.issued_certificates",
    "KafkaError": "mockbroker.kafka_error",
    "ListenerView": "mockbroker.net.listener_views",
    "MemberView": "mockbroker.broker.group_views",
    "NodeView": "mockbroker.broker.node_views",
    "PartitionView": "mockbroker.broker.node_views",
    "Proxy": "mockbroker.proxy.proxy",
    "RequestHistory": "mockbroker.journal.request_history",
    "SharePartitionView": "mockbroker.broker.inspection",
    "TopicRecord": "mockbroker.broker.topic_records",
    "TopicView": "mockbroker.broker.node_views",
    "WaitTimeout": "mockbroker.cluster_methods.waiting",
}


def __getattr__(name: str) -> object:
    """Import a public name on first use: the command does not load what it does not need."""
    if name == "__version__":
        from kwire.package_version import package_version

        return package_version()
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
