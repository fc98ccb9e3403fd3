"""Secrets are in no line of the log, whatever fails."""

from __future__ import annotations

import logging
from contextlib import suppress

import pytest

from kwire import Client, ClientError
from kwire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from kwire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from mockbroker import Cluster

_SECRETS = ("sesame-1", "wrong-2", "salt-bytes-3", "key-store-4")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_neither_passwords_nor_configurations_are_logged(mechanism: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mockbroker")
    with Cluster(sasl=f"{mechanism} alice:sesame-1") as cluster:
        for password in ("sesame-1", "wrong-2"):
            with (
                suppress(ClientError),
                Client(cluster.bootstrap_servers, sasl=("alice", password), sasl_mechanism=mechanism) as client,
            ):
                upsertion = ScramCredentialUpsertion("bob", 1, 4096, b"salt-bytes-3", b"x" * 32)
                client.send(AlterUserScramCredentialsRequest(upsertions=[upsertion]))
                config = AlterableConfig(name="ssl.keystore.password", value="key-store-4")
                resource = AlterConfigsResource(resource_type=4, resource_name="0", configs=[config])
                client.send(IncrementalAlterConfigsRequest(resources=[resource]))

    text = caplog.text + "".join(str(vars(record)["fields"]) for record in caplog.records)
    assert "IncrementalAlterConfigs" in text
    assert "authentication by" in text
    assert [secret for secret in _SECRETS if secret in text] == []
