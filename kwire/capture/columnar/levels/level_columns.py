"""What the reader of levels needs to know of a level; and the rows of exchanges that are decoded one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from kwire.capture.columnar.levels.level_rows import BodyGroup, LevelRows
from kwire.capture.columnar.levels.topic_history import UUID
from kwire.capture.rows.columns import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    import msgspec

    from kwire.capture.index.arrays import Ints
    from kwire.capture.index.flows.message_columns import ExchangeColumns
    from kwire.capture.kafka.message_fields import MessageTopic

    NamedBody = tuple[str, msgspec.Struct | None]

Values = tuple["MessageTopic", tuple[object, ...]]
"""The topic of a row, and its values of the columns of the level."""


class LevelColumns:
    """Builds the columns of a level, except topics and those of the exchange; subclasses have the level."""

    LEVEL: ClassVar[str]
    #: The columns in the order of the values of a row.
    COLUMNS: ClassVar[tuple[str, ...]]

    def __init__(self, columns: Collection[str], *, payload: bool = False) -> None:
        """`columns` are those that are read: what only others need is not decoded. `payload`: as in `Options`."""
        self.columns = [name for name in self.COLUMNS if name in columns]
        self.payload = payload
        self.types = {field.name: field.type for field in arrow_schema(self.LEVEL)}

    def has_rows(self, api_key: int) -> bool:
        """Whether exchanges of an API may have rows."""
        raise NotImplementedError

    def needs_request(self, api_key: int) -> bool:
        """Whether the request of an exchange with a valid response is needed."""
        raise NotImplementedError

    def row_times(self, exchanges: ExchangeColumns) -> Ints:
        """The column `ts` of the rows of each exchange, nanoseconds."""
        return exchanges.request.frame.ts

    def read_group(self, group: BodyGroup) -> tuple[list[LevelRows], Ints]:
        """The rows of the exchanges whose bodies could be decoded together, and these exchanges."""
        raise NotImplementedError

    def read_bodies(self, request: NamedBody, response: NamedBody) -> Iterator[Values]:
        """The rows of one exchange. Args: the name and the body of each message; None if it could not be decoded."""
        raise NotImplementedError

    def row_collector(self) -> RowCollector:
        """What collects the rows of exchanges that are decoded one by one."""
        return RowCollector(self)

    def build_array(self, name: str, values: Sequence[Any]) -> pa.Array:
        """A column of values of rows that were read one by one."""
        return pa.array(values, type=self.types[name])

    def build_rows(
        self, exchanges: ExchangeColumns, exchange: Ints, topic: tuple[pa.Array, pa.Array], arrays: dict[str, pa.Array]
    ) -> LevelRows:
        """Rows with the columns that are read. Args: exchange: the number of the exchange of each row."""
        ts = self.row_times(exchanges)[exchange]
        return LevelRows(exchange, ts, topic, {name: arrays[name] for name in self.columns})


class RowCollector:
    """Collects the rows of exchanges that are decoded one by one."""

    def __init__(self, level: LevelColumns) -> None:
        self._level = level
        self._exchange: list[int] = []
        self._topics: list[tuple[str | None, bytes | None]] = []
        self._values: list[tuple[object, ...]] = []

    def add_exchange(self, exchange: int, request: NamedBody, response: NamedBody) -> None:
        """Add the rows of an exchange."""
        for topic, values in self._level.read_bodies(request, response):
            self._exchange.append(exchange)
            self._topics.append((topic.name, topic.topic_id))
            self._values.append(values)

    def rows(self, exchanges: ExchangeColumns) -> LevelRows:
        """The rows of all exchanges that were added."""
        level, exchange = self._level, np.array(self._exchange, dtype=np.int64)
        names, ids = zip(*self._topics, strict=True) if self._topics else ((), ())
        columns = list(zip(*self._values, strict=True)) or [()] * len(level.COLUMNS)
        arrays = {
            name: level.build_array(name, values)
            for name, values in zip(level.COLUMNS, columns, strict=True)
            if name in level.columns
        }
        topic = pa.array(names, type=pa.string()), pa.array(ids, type=UUID)
        return level.build_rows(exchanges, exchange, topic, arrays)
