"""All scenarios by their names, and running one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kwire.schema import RELEASES
from tests.conversations.recordings import Recordings
from tests.nodes import (
    balance_scenarios,
    config_scenarios,
    coordinator_scenarios,
    dead_letter_scenarios,
    node_scenarios,
    producer_scenarios,
    replica_scenarios,
    replication_scenarios,
    retry_scenarios,
    share_scenarios,
    uncommitted_group_scenarios,
)
from tests.nodes.scenario_client import ScenarioClient, ScenarioCluster

Scenario = Callable[[ScenarioClient, dict[str, Any]], None]

_MODULES = (
    node_scenarios,
    replica_scenarios,
    share_scenarios,
    config_scenarios,
    coordinator_scenarios,
    producer_scenarios,
    balance_scenarios,
    uncommitted_group_scenarios,
    retry_scenarios,
    dead_letter_scenarios,
    replication_scenarios,
)
SCENARIOS: Mapping[str, Scenario] = {
    scenario.__name__: scenario for module in _MODULES for scenario in module.SCENARIOS
}

#: The files of additional properties with which some of the scenarios are recorded.
BALANCED, REPLICATED = "balanced.properties", "replicated.properties"
_PROPERTIES_OF_MODULES = ((balance_scenarios, BALANCED), (replication_scenarios, REPLICATED))
PROPERTIES_FILES: Mapping[str, str] = {
    scenario.__name__: file for module, file in _PROPERTIES_OF_MODULES for scenario in module.SCENARIOS
}

#: The scenarios of what only the newest release has.
NEWEST_SCENARIOS = frozenset(scenario.__name__ for scenario in dead_letter_scenarios.SCENARIOS)

_HERE = Path(__file__).parent
#: The answers of real clusters.
RECORDED = Recordings(
    _HERE / "answers", _HERE / "releases", ".json", lambda observed: f"{json.dumps(observed, indent=1)}\n"
)


def scenario_names(release: str) -> list[str]:
    """The scenarios of a release, in their order."""
    return [name for name in SCENARIOS if release == RELEASES[0] or name not in NEWEST_SCENARIOS]


def run_scenario(name: str, cluster: ScenarioCluster) -> dict[str, Any]:
    """Run a scenario on a cluster. Returns: its observations."""
    client = ScenarioClient(cluster)
    observed: dict[str, Any] = {}
    try:
        SCENARIOS[name](client, observed)
    finally:
        client.close()
    return observed
