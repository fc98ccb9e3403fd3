"""Kafka's own tool for ACLs (Java, from Maven) against the broker."""

from __future__ import annotations

import pytest

from mockbroker import Cluster
from tests.clients import java_tools

pytestmark = [pytest.mark.client, pytest.mark.timeout(600)]

ACLS = "org.apache.kafka.tools.AclCommand"
PROPERTIES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


def test_kafkas_acl_tool_adds_lists_and_removes_entries() -> None:
    with Cluster(topics={"orders": 1}, properties=PROPERTIES) as cluster:
        server = ("--bootstrap-server", cluster.bootstrap_servers)
        denied = ("--deny-principal", "User:*", "--operation", "Describe", "--group", "closed")
        java_tools.run(ACLS, *server, "--add", *denied)
        prefixed = ("--topic", "ord", "--group", "ord", "--resource-pattern-type", "prefixed")
        java_tools.run(ACLS, *server, "--add", "--allow-principal", "User:a", "--consumer", *prefixed)

        listed = java_tools.run(ACLS, *server, "--list")

        assert "resourceType=GROUP, name=closed, patternType=LITERAL" in listed
        assert "resourceType=TOPIC, name=ord, patternType=PREFIXED" in listed
        assert "(principal=User:*, host=*, operation=DESCRIBE, permissionType=DENY)" in listed
        java_tools.run(ACLS, *server, "--remove", "--group", "closed", "--force")
        left = java_tools.run(ACLS, *server, "--list", "--topic", "orders", "--resource-pattern-type", "match")
        assert "name=ord," in left
        assert "closed" not in java_tools.run(ACLS, *server, "--list")
