from __future__ import annotations

from typing import Any

import pytest

from kwire import to_json
from kwire.messages.create_delegation_token import CreateDelegationTokenResponse
from kwire.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kwire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.records import Record, write_batch
from kwire.redact import is_sensitive_config, redact_json, redact_text, redacted_json, secret_paths


@pytest.mark.parametrize(
    "name",
    [
        "ssl.keystore.password", "ssl.key.password", "sasl.jaas.config", "delegation.token.secret.key",
        "sasl.oauthbearer.client.credentials.client.secret", "ssl.keystore.key", "ssl.truststore.certificates",
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config", "basic.auth.credentials.source", "MY.API.KEY",
    ],
)  # fmt: skip
def test_these_configurations_are_sensitive(name: str) -> None:
    assert is_sensitive_config(name)


@pytest.mark.parametrize("name", ["retention.ms", "compression.type", "group.share.record.lock.duration.ms", "key"])
def test_these_configurations_are_not(name: str) -> None:
    assert not is_sensitive_config(name)


def test_sasl_bytes_are_masked_unless_requested() -> None:
    message = SaslAuthenticateRequest(b"\0alice\0s3cr3t")

    assert redacted_json(message, 2) == {"authBytes": "***"}
    assert redacted_json(message, 2, show_secrets=True) == to_json(message, 2)


def test_a_tokens_hmac_is_masked_and_the_rest_is_shown() -> None:
    tree = redacted_json(CreateDelegationTokenResponse(token_id="id-1", hmac=b"12345"), 3)

    assert tree["hmac"] == "***"
    assert tree["tokenId"] == "id-1"


def test_a_config_value_is_masked_by_its_name_and_the_given_tree_is_not_changed() -> None:
    configs = [AlterableConfig("ssl.key.password", 0, "hunter2"), AlterableConfig("retention.ms", 0, "5")]
    message = IncrementalAlterConfigsRequest([AlterConfigsResource(4, "1", configs)])
    tree = to_json(message, 1)

    masked = redact_json(tree, "IncrementalAlterConfigsRequest")
    assert "hunter2" in str(tree)
    assert "hunter2" not in str(masked)
    assert "'value': '5'" in str(masked)
    assert secret_paths(tree, "IncrementalAlterConfigsRequest") == {("resources", 0, "configs", 0, "value")}


def test_a_sensitive_entry_of_the_broker_is_masked_with_its_synonyms() -> None:
    entry = DescribeConfigsResourceResult(
        name="my.word", value="hunter2", is_sensitive=True, synonyms=[DescribeConfigsSynonym("other", "hunter2", 4)]
    )
    message = DescribeConfigsResponse(results=[DescribeConfigsResult(configs=[entry])])

    assert "hunter2" not in str(redacted_json(message, 4))
    assert "hunter2" in str(redacted_json(message, 4, show_secrets=True))


def test_a_null_is_not_masked() -> None:
    configs = [AlterableConfig("ssl.key.password", 1, None)]
    message = IncrementalAlterConfigsRequest([AlterConfigsResource(4, "1", configs)])

    assert secret_paths(to_json(message, 1), "IncrementalAlterConfigsRequest") == set()


def test_an_invalid_value_is_masked_in_the_error_message_that_quotes_it() -> None:
    text = "Invalid value hunter2 for configuration ssl.key.password: no"

    assert redact_text(text) == "Invalid value *** for configuration ssl.key.password: no"
    harmless = text.replace("ssl.key.password", "retention.ms")
    assert redact_text(harmless) == harmless


def test_records_are_summarized_unless_payloads_are_requested_and_the_message_keeps_them() -> None:
    batch = write_batch([Record(0, 1, b"key", b"value"), Record(1, 1, None, None)], codec="gzip")
    partitions = [PartitionProduceData(0, batch), PartitionProduceData(1, None), PartitionProduceData(2, b"\0" * 70)]
    message = ProduceRequest(acks=1, topic_data=[TopicProduceData("t", partition_data=partitions)])

    topics: Any = redacted_json(message, 9)["topicData"]
    records = [each["records"] for each in topics[0]["partitionData"]]
    assert records[0] == {"count": 2, "bytes": len(batch), "codec": "gzip"}
    assert records[1] is None
    assert records[2]["bytes"] == 70
    assert "batch" in records[2]["error"]
    assert [each.records for each in partitions] == [batch, None, b"\0" * 70]
    assert redacted_json(message, 9, payload=True) == to_json(message, 9)
