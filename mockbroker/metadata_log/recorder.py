"""`MetadataRecorder`: writes the changes of a cluster to its metadata log, before they are acknowledged.

A change that cannot be written is undone, and its request is answered with KAFKA_STORAGE_ERROR. What cannot be undone,
as the leader of a partition after its broker has ended, is written as soon as the log accepts it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from kwire.error_codes import ErrorCode
from kwire.metadata_record import MetadataRecord
from kwire.records.metadata.register_broker_record import RegisterBrokerRecord
from kwire.records.metadata.remove_topic_record import RemoveTopicRecord
from kwire.records.metadata.topic_record import TopicRecord
from mockbroker.kafka_error import KafkaError
from mockbroker.log.subjects import STORAGE
from mockbroker.metadata_log.batches import Quorum
from mockbroker.metadata_log.metadata_log import MetadataLog
from mockbroker.metadata_log.restoration import revert_changes
from mockbroker.metadata_log.tracker import MetadataTracker
from mockbroker.state.metadata.feature_levels import KRAFT_VERSION

if TYPE_CHECKING:
    from mockbroker.broker.cluster_state import ClusterState
    from mockbroker.state.metadata.topics import Topic

#: The interval between attempts to write what could not be written and could not be undone, milliseconds.
_RETRY_MS = 1_000


class MetadataRecorder:
    """The metadata log of a running cluster. clock: milliseconds of the cluster's clock.

    directory_ids: of the log directories, by node. quorum_node: the first node, whose folder has the log.
    """

    def __init__(
        self,
        state: ClusterState,
        log: MetadataLog,
        *,
        directory_ids: Mapping[int, bytes],
        quorum_node: int,
        clock: Callable[[], int],
    ) -> None:
        self._state = state
        self._log = log
        self._directory_ids = directory_ids
        self._quorum_node = quorum_node
        self._clock = clock
        self._is_failing = self._is_closed = False
        self._tracker = MetadataTracker(state, log.image, directory_of=self._directory_of)
        state.metadata.before_deletion = self._write_deletion

    def write_changes(self) -> None:
        """Write what has changed since the last time.

        Raises: KAFKA_STORAGE_ERROR; then the changes of requests are undone.
        """
        if not self._tracker.has_changes():
            return
        try:
            self._write()
        except OSError as error:
            self._revert()
            self._give_up(error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the metadata log: {error.strerror or error}") from error

    def write_pending(self) -> None:
        """Write what has changed outside a request; if that fails, it is logged and tried again later."""
        if self._tracker.has_changes():
            with suppress(KafkaError):  # It is logged already.
                self.write_changes()

    def broker_epochs(self) -> dict[int, int]:
        """The epochs of the registered brokers."""
        return {node: record.broker_epoch for node, record in self._log.image.tables[RegisterBrokerRecord].items()}

    def close(self) -> None:
        """Write what is left, and a snapshot for the next start. Raises: OSError; the log is closed in any case."""
        self._is_closed = True
        try:
            self._tracker.forget_counters()
            self._write()
            if self._log.needs_snapshot_at_end:
                self._log.write_snapshot(self._tracker.snapshot(), now_ms=self._clock())
            self._log.sync()
            self._log.mark_end()
        finally:
            self._log.close()

    def _write(self) -> None:
        now_ms = self._clock()
        if self._is_failing:
            self._tracker.forget_counters()
        self._start_epoch()
        self._log.set_kraft_version(self._state.features.get(KRAFT_VERSION, 0), now_ms=now_ms)
        records = self._tracker.find_records(self._log.end_offset)
        if records:
            self._log.append(records, now_ms=now_ms)
        self._tracker.mark_written()
        if self._is_failing:
            self._is_failing = False
            STORAGE.info("the metadata log accepts records again")
        if self._log.needs_snapshot:
            self._write_snapshot(now_ms)
        if records and not self._is_closed and self._state.log_store is not None:
            self._state.log_store.mark_metadata_written(now_ms=now_ms)

    def _start_epoch(self) -> None:
        if not self._log.has_started:
            self._log.start_epoch(self._quorum(), now_ms=self._clock())

    def _write_snapshot(self, now_ms: int) -> None:
        try:
            self._log.write_snapshot(self._tracker.snapshot(), now_ms=now_ms)
        except OSError as error:
            self._log.postpone_snapshot()
            STORAGE.warning("no snapshot of the metadata log: %(error)s", error=str(error))

    def _write_deletion(self, topic: Topic) -> None:
        """Write that a topic is deleted, before it is. Raises: KAFKA_STORAGE_ERROR."""
        if topic.topic_id not in self._log.image.tables[TopicRecord]:
            return  # Neither its creation nor its deletion is in the log.
        try:
            self._start_epoch()
            self._log.append([MetadataRecord(RemoveTopicRecord(topic.topic_id), 0)], now_ms=self._clock())
        except OSError as error:
            self._give_up(error)
            problem = f"the metadata log: {error.strerror or error}"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, problem) from error

    def _revert(self) -> None:
        state = self._state
        revert_changes(self._log.image, state)
        state.features.pop(KRAFT_VERSION, None)
        if self._log.kraft_version:
            state.features[KRAFT_VERSION] = self._log.kraft_version

    def _give_up(self, error: OSError) -> None:
        """What is left of the changes is written later."""
        self._tracker.mark_seen()
        template = "the metadata log cannot be written, changes of the cluster are refused: %(error)s"
        STORAGE.warning(template, error=str(error))
        if not self._is_failing:
            self._is_failing = True
            self._schedule_retry()

    def _schedule_retry(self) -> None:
        def retry(_: int) -> None:
            if self._is_failing and not self._is_closed:
                self._tracker.forget_counters()
                self.write_pending()
                if self._is_failing:
                    self._schedule_retry()

        self._state.inter_broker.schedule(_RETRY_MS, retry, now_ms=self._clock(), owner=None)

    def _quorum(self) -> Quorum:
        level = self._state.features.get(KRAFT_VERSION, 0)
        return Quorum(self._quorum_node, self._directory_of(self._quorum_node), level)

    def _directory_of(self, node_id: int) -> bytes:
        known = self._directory_ids.get(node_id)
        return (
            known if known is not None else self._state.broker_storage.directory_id(node_id, self._state.rng.randbytes)
        )
