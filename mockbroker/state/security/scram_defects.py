"""Known defects of clients in SCRAM that Kafka 4 refuses, and earlier releases of Kafka did not notice."""

from __future__ import annotations


def find_defect(nonce: str, *, client: str, server: str, salt: str) -> str | None:
    """The defect of a client whose final message has another nonce than the challenge, None for no known one.

    nonce: of the final message. client, server: the two parts of the right one, which is one after the other. salt: of
    the challenge, in base64. Source: librdkafka's pull request 4895 and KAFKA-13464; kafka_protocol's pull request 112.
    """
    if nonce == f"{client}{client}{server}":
        return "it has the nonce of the client twice, as librdkafka before 2.6.1 sends it; Kafka 4 refuses it too"
    if nonce == client:
        return "it lacks the nonce of the broker, as some clients send it that were written before Kafka checked it"
    if nonce == salt:
        return "it has the salt instead of the nonce, as kafka_protocol (Erlang) before 4.1.3 sends it"
    return None
