"""Faults: what goes wrong on purpose, as data (`Fault`), and its effect on requests and answers.

`model` has the values, `validation` checks them, `conditions` compares requests with them, `registry` has the faults of
a cluster, `planned_faults` applies those of one request. `cluster_model` has what happens to nodes and at which times,
`active_cluster_fault` lets it happen. docs/faults.md describes their use.
"""

from mockbroker.faults.cluster_model import ClusterFault
from mockbroker.faults.control import Chaos, FaultHandle, Faults
from mockbroker.faults.fault_error import FaultError
from mockbroker.faults.model import Fault, Then, When

__all__ = ["Chaos", "ClusterFault", "Fault", "FaultError", "FaultHandle", "Faults", "Then", "When"]
