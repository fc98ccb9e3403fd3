"""The levels of the captures of a report, each decoded once.

Small captures are decoded in this process, others of this machine by processes that write Parquet files, and those that
Spark reads on a cluster by its workers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from kwire.capture.rows.column import Phase
from kwire.capture.rows.columns import LEVELS as LEVEL_COLUMNS
from kwire.capture.share_timeline import event_context, event_reader
from kwire.registry import DEFAULT_EDITION, api_name
from kwire.report import client_notes, local_tables
from kwire.report.level_files import LevelFiles
from kwire.report.level_jobs import request_schema
from kwire.report.local_deliveries import DeliveryTables, compute_deliveries
from kwire.spark import analyses, spark_session
from kwire.spark.analyses.conformance import API_VERSIONS
from kwire.spark.analyses.rebalances import API_KEYS
from kwire.spark.analyses.share_timeline import local_timeline, share_timeline

# The APIs whose bodies are used by analyses; bodies of other APIs are not rendered.
APIS_WITH_BODIES = (*{*map(api_name, (*API_KEYS, API_VERSIONS)), *event_reader.APIS, *event_context.APIS},)

_MESSAGE_COLUMNS = [column.name for column in LEVEL_COLUMNS["messages"] if column.phase is not Phase.JSON]
_DETAIL_COLUMNS = [column.name for column in LEVEL_COLUMNS["messages"] if column.name != "issues"]
# By the field of `Levels`: the level to read, and additional options.
LEVEL_OPTIONS: dict[str, tuple[str, dict[str, str]]] = {
    "messages": ("messages", {"columns": ",".join(_MESSAGE_COLUMNS)}),
    "details": (
        "messages",
        {"columns": ",".join(_DETAIL_COLUMNS), "filter": f"api in ({', '.join(APIS_WITH_BODIES)})"},
    ),
    "partitions": ("partitions", {}),
    "acquired": ("share_acquired", {}),
    "acks": ("share_acks", {}),
    "flows": ("flows", {}),
    "records": ("records", {}),
}

# Size limit of captures that are decoded in this process, bytes: Spark would read them in one task as well.
LOCAL_SIZE_MAX = 16 * 1024 * 1024


@dataclass(frozen=True)
class DecodedLevels:
    """What this process has decoded of small captures, without Spark.

    tables: the levels, by the name of their field in `Levels`. notes: conformance notes about the clients.
    transitions: those of the share partitions. deliveries: of records to share groups.
    """

    tables: Mapping[str, pa.Table]
    notes: pa.Table
    transitions: pa.Table
    deliveries: DeliveryTables


#: What a process without Spark has decoded.
Decoded = DecodedLevels | LevelFiles


@dataclass(frozen=True)
class Levels:
    """The levels of some captures. `details`: the messages of the APIs in `APIS_WITH_BODIES`, with their bodies.

    `records` is None unless the content of records was requested. `decoded`: None if Spark's workers decode.
    """

    messages: DataFrame
    details: DataFrame
    partitions: DataFrame
    acquired: DataFrame
    acks: DataFrame
    flows: DataFrame
    records: DataFrame | None = None
    decoded: Decoded | None = None
    edition: str = DEFAULT_EDITION

    def close(self) -> None:
        """Release the cached rows and the files of all levels."""
        if isinstance(self.decoded, LevelFiles):
            self.decoded.close()
        for level_field in fields(self):
            level = getattr(self, level_field.name)
            if isinstance(level, DataFrame):
                level.unpersist()

    def breaches(self, deliveries: Callable[[], DataFrame]) -> DataFrame:
        """Breaches of rules. deliveries: returns the result of `attempts`.

        Those of clients in large captures are found by queries, which know fewer rules.
        """
        if not isinstance(self.decoded, DecodedLevels):
            return analyses.conformance(self.messages, self.details, self.partitions, deliveries())
        notes = local_tables.to_data_frame(self.messages.sparkSession, self.decoded.notes)
        return analyses.message_breaches(self.messages).unionByName(notes)

    def timeline(self) -> DataFrame:
        """The timeline of all share partitions."""
        file = self.decoded.timeline_file() if isinstance(self.decoded, LevelFiles) else None
        if file is not None:
            return self._read_file(file)
        if not isinstance(self.decoded, DecodedLevels):
            return share_timeline(self.details, self.flows, edition=self.edition).persist()
        return local_tables.to_data_frame(self.details.sparkSession, self.decoded.transitions)

    def attempts(self) -> DataFrame:
        """Each delivery of each record to a share member."""
        return self._decoded_deliveries("attempts") or analyses.attempts(self.acquired, self.acks).persist()

    def outcomes(self) -> DataFrame:
        """The outcome of each record that was delivered to a share group."""
        return self._decoded_deliveries("outcomes") or analyses.outcomes(self.acquired, self.acks).persist()

    def lock_times(self, deliveries: Callable[[], DataFrame]) -> DataFrame:
        """Records that were acquired and acknowledged together. deliveries: returns the result of `attempts`."""
        return self._decoded_deliveries("lock_times") or analyses.lock_times(deliveries()).persist()

    def _decoded_deliveries(self, table: str) -> DataFrame | None:
        """A table of `DeliveryTables`, if this machine has computed them."""
        if isinstance(self.decoded, DecodedLevels):
            return local_tables.to_data_frame(self.details.sparkSession, getattr(self.decoded.deliveries, table))
        file = self.decoded.delivery_file(table) if self.decoded is not None else None
        return None if file is None else self._read_file(file)

    def _read_file(self, file: str) -> DataFrame:
        schema = from_arrow_schema(pq.read_schema(file))
        return self.details.sparkSession.read.schema(schema).parquet(file)


def read_levels(
    spark: SparkSession,
    files: Sequence[str],
    options: Mapping[str, str] | None,
    decoded: Decoded | None = None,
) -> Levels:
    """The levels of these files; each is decoded once. decoded: the result of `decode_levels`, if it was called."""
    edition = (options or {}).get("edition", DEFAULT_EDITION)
    if decoded is None:
        decoded = decode_levels(files, options, is_local=spark_session.is_local(spark))
    levels: dict[str, Any] = {}
    if isinstance(decoded, LevelFiles):
        for name, texts in _level_options(options).items():
            schema = from_arrow_schema(request_schema(texts))
            levels[name] = spark.read.schema(schema).parquet(*decoded.files_of(name))
        return Levels(**levels, decoded=decoded, edition=edition)
    if decoded is not None:
        levels = {name: local_tables.to_data_frame(spark, table) for name, table in decoded.tables.items()}
        return Levels(**levels, decoded=decoded, edition=edition)
    # Several analyses use the same rows, and decoding is expensive; records are read once, for a few of them.
    for name, texts in _level_options(options).items():
        rows = spark.read.format("kafka_capture").options(**texts).load(list(files))
        levels[name] = rows if name == "records" else rows.persist()
    return Levels(**levels, edition=edition)


def decode_levels(files: Sequence[str], options: Mapping[str, str] | None, *, is_local: bool) -> Decoded | None:
    """The levels of these files, decoded on this machine: small ones in this process, others in files, to be closed.

    None if they are not of this machine, or large and to be analyzed elsewhere. It needs no session: `kwire report`
    decodes while Spark starts.
    Args: is_local: whether Spark runs on this machine.
    """
    edition = (options or {}).get("edition", DEFAULT_EDITION)
    if not is_small(files):
        if not is_local or not all(map(os.path.isfile, files)):
            return None
        level_files = LevelFiles()
        try:
            level_files.decode(files, _level_options(options), edition=edition)
        except BaseException:
            level_files.close()
            raise
        return level_files
    decoded = {name: local_tables.read_table(files, texts) for name, texts in _level_options(options).items()}
    transitions = local_timeline(decoded["details"], decoded["flows"], edition=edition)
    deliveries = compute_deliveries(decoded["acquired"], decoded["acks"])
    return DecodedLevels(decoded, client_notes.read_notes(files, options), transitions, deliveries)


def _level_options(options: Mapping[str, str] | None) -> dict[str, dict[str, str]]:
    """The options to read each level with; without `payload`, the level `records` is not read."""
    chosen = options or {}
    level_options = {name: {**chosen, **more, "level": level} for name, (level, more) in LEVEL_OPTIONS.items()}
    if chosen.get("payload") != "true":
        del level_options["records"]
    return level_options


def is_small(files: Sequence[str]) -> bool:
    """Whether these files are decoded in this process."""
    return fits_size(files, LOCAL_SIZE_MAX)


def fits_size(files: Sequence[str], size_max: int) -> bool:
    """Whether all of these are files of this machine with a total size of at most `size_max` bytes."""
    sizes = [os.path.getsize(file) for file in files if os.path.isfile(file)]
    return len(sizes) == len(files) and sum(sizes) <= size_max
