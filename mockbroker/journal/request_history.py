"""`RequestHistory`: a question to the journal with its result, conditions on it, and assertions about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, overload

import msgspec

from kwire import registry
from mockbroker.journal.api_names import resolve_api_name
from mockbroker.journal.condition import Condition, Subject, TopicNames
from mockbroker.journal.exchange import Exchange
from mockbroker.journal.history_report import count_apis, describe_exchange, describe_kind, list_exchanges, list_nearest
from mockbroker.journal.journal import Journal
from mockbroker.journal.request_filters import build_conditions, number_of
from mockbroker.journal.response_conditions import answered_condition, error_condition
from mockbroker.journal.where import where_conditions

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


class Snapshot(NamedTuple):
    """The journal at one moment. dropped: how many older exchanges it does not have any more."""

    exchanges: tuple[Exchange[Any, Any], ...]
    dropped: int
    topic_names: TopicNames

    @classmethod
    def from_journal(cls, journal: Journal) -> Snapshot:
        """Copy a journal; in the thread that changes it."""
        return cls(tuple(journal), journal.dropped, dict(journal.topic_names))


class RequestHistory(Sequence[Exchange[RequestT, ResponseT]], Generic[RequestT, ResponseT]):
    """The requests of an API that fulfil all conditions, in order of arrival, when the question was asked.

    Later requests are not added; the responses of its requests are. A sequence of exchanges: `len`, an index, a loop.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        api: str | type[msgspec.Struct] | None,
        conditions: Sequence[Condition] = (),
        *,
        after: int = 0,
    ) -> None:
        """Ask a question of a snapshot. after: the number of the exchange behind which the conditions look.

        Raises: ValueError for an unknown API.
        """
        self._snapshot = snapshot
        self._after = after
        self.api = None if api is None else resolve_api_name(api)
        self.conditions = tuple(conditions)
        self._candidates = [e for e in snapshot.exchanges if self.api in (None, e.api_name)]
        self._exchanges: list[Exchange[RequestT, ResponseT]] = [
            e for e in self._candidates if all(condition.matches(e) for condition in conditions)
        ]

    @classmethod
    def filtered(
        cls, snapshot: Snapshot, api: str | type[msgspec.Struct] | None, filters: Mapping[str, object]
    ) -> RequestHistory[Any, Any]:
        """The requests that match `RequestFilters`. Raises: as `build_conditions`, ValueError for an unknown API."""
        question = RequestHistory[Any, Any](snapshot, api)
        conditions = build_conditions(filters, question._subject())
        after = number_of(filters["after"]) if "after" in filters else 0
        return RequestHistory(snapshot, api, conditions, after=after)

    def where(
        self, condition: Mapping[str, object] | Callable[[RequestT], bool] | None = None, /, **fields: object
    ) -> RequestHistory[RequestT, ResponseT]:
        """Those whose request has these values, `where(max_records=500)`, or for which a function returns true.

        A path reaches nested fields, `where({"topics.partitions.partition_index": 0})`; in an array one element must
        have the value. A value may be a function of the field, `where(max_wait_ms=lambda ms: ms > 500)`.
        Raises: ValueError for a field that the request does not have, with the nearest names.
        """
        conditions = where_conditions(condition, self._subject()) if condition is not None else []
        return self._narrow([*conditions, *where_conditions(fields, self._subject())])

    def answered(self, *, error: str | int | None = None) -> RequestHistory[RequestT, ResponseT]:
        """Those with a response; with `error`, those whose response has this code at its top or in any of its parts.

        error: "NOT_LEADER_OR_FOLLOWER", or its number; "NONE": without any error. Raises: ValueError for another.
        """
        return self._narrow([answered_condition() if error is None else error_condition(error)])

    def unanswered(self) -> RequestHistory[RequestT, ResponseT]:
        """Those without a response until now."""
        answered = answered_condition()
        return self._narrow([Condition("no response", lambda e: not answered.matches(e), lambda _: "answered")])

    def assert_sent(self) -> RequestHistory[RequestT, ResponseT]:
        """Assert that there is at least one. Returns: itself. Raises: AssertionError with the nearest requests."""
        __tracebackhide__ = True
        if not self._exchanges:
            raise AssertionError(f"no {self.describe()} was sent; {self.describe_misses()}")
        return self

    def assert_never(self) -> None:
        """Assert that there is none. Raises: AssertionError with those that there are."""
        __tracebackhide__ = True
        self.require_complete()
        if self._exchanges:
            verb = "was" if len(self) == 1 else "were"
            head = f"expected no {self.describe()}, but {len(self)} {verb} sent:"
            raise AssertionError("\n".join([head, *list_exchanges(self._exchanges, self._snapshot.topic_names)]))

    def assert_count(self, count: int) -> RequestHistory[RequestT, ResponseT]:
        """Assert that there are this many. Returns: itself. Raises: AssertionError with them and the nearest others."""
        __tracebackhide__ = True
        self.require_complete()
        if len(self) != count:
            kind = describe_kind(self.api, self.conditions, count=count)
            verb = "is" if len(self) == 1 else "are"
            text = f"expected {kind}, but there {verb} {len(self)}; {self.describe_misses()}"
            lines = list_exchanges(self._exchanges, self._snapshot.topic_names)
            raise AssertionError("\n".join([text, "matching:", *lines] if lines else [text]))
        return self

    @property
    def topic_names(self) -> TopicNames:
        """The names of topics by their ids, when the question was asked."""
        return self._snapshot.topic_names

    def describe(self) -> str:
        """The question, as "Produce request with client_id='a'"."""
        return describe_kind(self.api, self.conditions)

    def require_complete(self) -> None:
        """Raises: AssertionError if the journal has dropped exchanges that the assertion would have to look at."""
        if self._snapshot.dropped > self._after:
            raise AssertionError(
                f"cannot be decided: the journal has dropped its {self._snapshot.dropped} oldest exchanges; "
                "ask for those after a later one (after=...)"
            )

    def describe_misses(self) -> str:
        """The requests of the API that are nearest to the conditions without fulfilling them, each with what it has."""
        if not self._candidates:
            return f"sent were {count_apis(self._snapshot.exchanges)}"
        nearest = list_nearest(self._candidates, self.conditions, self._snapshot.topic_names)
        noun = f"{self.api} requests" if self.api else "requests"
        return "\n".join([f"nearest of {len(self._candidates)} {noun}:", *nearest]) if nearest else "no others"

    def __str__(self) -> str:
        """The question and one line for each exchange."""
        lines = [f"  {describe_exchange(exchange, self._snapshot.topic_names)}" for exchange in self._exchanges]
        return "\n".join([f"{len(self)} of: {self.describe()}", *lines])

    def __repr__(self) -> str:
        return f"<RequestHistory: {self.describe()}: {len(self)} of {len(self._candidates)}>"

    def __len__(self) -> int:
        return len(self._exchanges)

    def __iter__(self) -> Iterator[Exchange[RequestT, ResponseT]]:
        return iter(self._exchanges)

    @overload
    def __getitem__(self, index: int) -> Exchange[RequestT, ResponseT]: ...
    @overload
    def __getitem__(self, index: slice) -> list[Exchange[RequestT, ResponseT]]: ...
    def __getitem__(self, index: int | slice) -> Exchange[RequestT, ResponseT] | list[Exchange[RequestT, ResponseT]]:
        return self._exchanges[index]

    def _narrow(self, conditions: Sequence[Condition]) -> RequestHistory[RequestT, ResponseT]:
        return RequestHistory(self._snapshot, self.api, [*self.conditions, *conditions], after=self._after)

    def _subject(self) -> Subject:
        if self.api is None:
            return Subject((), self._snapshot.topic_names)
        seen = {type(exchange.request) for exchange in self._candidates if exchange.request is not None}
        classes = {registry.message_class(f"{self.api}Request"), *seen}
        return Subject(tuple(sorted(classes, key=lambda cls: cls.__module__)), self._snapshot.topic_names)
