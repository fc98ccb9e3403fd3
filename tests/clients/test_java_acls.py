"""Kafka's own ACL tool (Java, from Maven) against the broker."""

from __future__ import annotations

import pytest

from mockbroker import Cluster
from tests.clients.java_tools import ToolShell

pytestmark = [pytest.mark.client, pytest.mark.timeout(600)]

ACLS = "org.apache.kafka.tools.AclCommand"
PROPERTIES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


def test_kafkas_acl_tool_adds_lists_and_removes_entries(tools: ToolShell) -> None:
    with Cluster(topics={"orders": 1}, properties=PROPERTIES) as cluster:
        server = ("--bootstrap-server", cluster.bootstrap_servers)
        denied = ("--deny-principal", "User:*", "--operation", "Describe", "--group", "closed")
        tools.run(ACLS, *server, "--add", *denied)
        prefixed = ("--topic", "ord", "--group", "ord", "--resource-pattern-type", "prefixed")
        tools.run(ACLS, *server, "--add", "--allow-principal", "User:a", "--consumer", *prefixed)

        listed = tools.run(ACLS, *server, "--list")

        assert "resourceType=GROUP, name=closed, patternType=LITERAL" in listed
        assert "resourceType=TOPIC, name=ord, patternType=PREFIXED" in listed
        assert "(principal=User:*, host=*, operation=DESCRIBE, permissionType=DENY)" in listed
        tools.run(ACLS, *server, "--remove", "--group", "closed", "--force")
        left = tools.run(ACLS, *server, "--list", "--topic", "orders", "--resource-pattern-type", "match")
        assert "name=ord," in left
        assert "closed" not in tools.run(ACLS, *server, "--list")
