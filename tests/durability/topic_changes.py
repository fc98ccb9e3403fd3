"""A client that creates, configures and deletes topics: each change that was acknowledged stays."""

from __future__ import annotations

import random
from collections.abc import Iterator

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from tests.durability.worker import Worker

_TIMEOUT_S = 10.0
_PAUSE_S = 0.02
_KNOWN_MAX = 30


class TopicChanger(Worker):
    """Topics by name with the retention that was acknowledged; `deleted` has those whose deletion was."""

    def __init__(self, bootstrap_servers: str, prefix: str, *, replication_factor: int, seed: int) -> None:
        super().__init__(bootstrap_servers, prefix)
        self.created: dict[str, str] = {}
        self.deleted: set[str] = set()
        self._factor = replication_factor
        self._random = random.Random(seed)
        self._number = 0

    def run(self) -> None:
        """Create, and delete the oldest ones, until stopped."""
        admin = AdminClient(self._settings)
        while not self.is_stopping:
            if len(self.created) < _KNOWN_MAX:
                self._create(admin)
            else:
                self._delete(admin, self._random.choice(sorted(self.created)))
            self.pause(_PAUSE_S)

    def _create(self, admin: AdminClient) -> None:
        name, retention = f"{self.topic}-{self._number}", str(60_000 + self._number)
        self._number += 1
        topic = NewTopic(name, self._random.randrange(1, 4), self._factor, config={"retention.ms": retention})
        try:
            admin.create_topics([topic], operation_timeout=_TIMEOUT_S)[name].result(_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                return  # Whether it was created is not known.
        except TimeoutError:
            return
        self.created[name] = retention

    def _delete(self, admin: AdminClient, name: str) -> None:
        del self.created[name]
        try:
            admin.delete_topics([name], operation_timeout=_TIMEOUT_S)[name].result(_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                return
        except TimeoutError:
            return
        self.deleted.add(name)

    def verify(self) -> Iterator[str]:
        """Compare the topics of the cluster. Raises: KafkaException if it does not answer."""
        admin = AdminClient(self._settings)
        present = admin.list_topics(timeout=_TIMEOUT_S).topics
        for name in sorted(self.created.keys() - present.keys()):
            yield f"{name} was created, and is not there"
        for name in sorted(self.deleted & present.keys()):
            yield f"{name} was deleted, and is there"
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in self.created if name in present]
        for resource, future in admin.describe_configs(resources).items() if resources else ():
            found = future.result(_TIMEOUT_S)["retention.ms"].value
            if found != self.created[resource.name]:
                yield f"{resource.name} has retention.ms {found}, not {self.created[resource.name]}"

    @property
    def has_promises(self) -> bool:
        """See `Worker`."""
        return bool(self.created)

    def progress(self) -> str:
        """The topics."""
        return f"{len(self.created)} topics created, {len(self.deleted)} deleted"
