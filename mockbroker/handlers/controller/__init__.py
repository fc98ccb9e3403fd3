"""The APIs at the listener of the controller (KIP-919), for clients with `bootstrap.controllers`.

Those that clients send are served, in the versions of the brokers. Not listed are the APIs between the nodes of a
cluster: here they are calls inside the process.
"""

from __future__ import annotations

from collections.abc import Mapping

from mockbroker.engine.routes import Route, route

#: Served by the handlers of the brokers: the controller owns what they read and change.
_OF_BROKERS = frozenset(
    (
        17,  # SaslHandshake
        19,  # CreateTopics
        20,  # DeleteTopics
        29,  # DescribeAcls
        30,  # CreateAcls
        31,  # DeleteAcls
        32,  # DescribeConfigs
        33,  # AlterConfigs
        36,  # SaslAuthenticate
        37,  # CreatePartitions
        38,  # CreateDelegationToken
        39,  # RenewDelegationToken
        40,  # ExpireDelegationToken
        43,  # ElectLeaders
        44,  # IncrementalAlterConfigs
        45,  # AlterPartitionReassignments
        46,  # ListPartitionReassignments
        49,  # AlterClientQuotas
        51,  # AlterUserScramCredentials
        55,  # DescribeQuorum
        57,  # UpdateFeatures
        64,  # UnregisterBroker
        80,  # AddRaftVoter
        81,  # RemoveRaftVoter
        94,  # UnregisterController
    )
)
#: Where the controller has an answer of its own.
_OWN = {
    18: "controller.controller_apis.api_versions",
    41: "controller.controller_apis.describe_delegation_token",
    50: "controller.controller_apis.describe_user_scram_credentials",
    60: "controller.controller_apis.describe_cluster",
}


#: The keys of all APIs of the controller.
CONTROLLER_API_KEYS = _OF_BROKERS | _OWN.keys()


def select_controller_routes(routes: Mapping[int, Route]) -> dict[int, Route]:
    """The routes of the controller among those of a cluster, by API key. Source: ApiVersions of a real controller."""
    return {key: _select(line) for key, line in routes.items() if key in CONTROLLER_API_KEYS}


def _select(line: Route) -> Route:
    path = _OWN.get(line.api_key)
    if path is None:
        return line
    return route(line.api_key, line.name, path, versions=line.versions, listed=line.listed)
