"""Methods of `Cluster` that ask what went over the wire, and assert it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Unpack, overload

import msgspec

from mockbroker.cluster_methods.cluster_thread import ClusterThread

if TYPE_CHECKING:
    from collections.abc import Collection

    from kwire.conformance.model import Note
    from mockbroker.journal import Exchange, Journal
    from mockbroker.journal.conformance import ObservedJournal
    from mockbroker.journal.request_filters import RequestFilters
    from mockbroker.journal.request_history import RequestHistory, Snapshot

RequestT_co = TypeVar("RequestT_co", covariant=True)
ResponseT_co = TypeVar("ResponseT_co", covariant=True)
RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")
StructT = TypeVar("StructT", bound=msgspec.Struct)

#: An API in a question: its name, or the class of its requests.
Api = str | type[msgspec.Struct]


class RequestClass(Protocol[RequestT_co, ResponseT_co]):
    """The class of the requests of an API, by which a type checker finds the class of its responses."""

    def __call__(self) -> RequestT_co:
        """Create a request."""

    @property
    def RESPONSE(self) -> type[ResponseT_co]:  # noqa: N802 - the constant of the generated classes.
        """The class of the responses."""


class HistoryMethods(ClusterThread):
    """What went over the wire, while the cluster runs and afterwards."""

    @property
    def journal(self) -> Journal:
        """Every exchange in order, also after the cluster has stopped; while it runs, `exchanges` is safe to call."""
        return self._started().core.journal

    def exchanges(self, api: Api | None = None) -> list[Exchange]:
        """The exchanges until now, also after the cluster has stopped.

        api: "ShareFetch", or its request class; all when None. Raises: ValueError for an unknown API.
        """
        if self._thread is None:
            return self._started().core.journal.exchanges(api)
        return self._read(lambda server: server.core.journal.exchanges(api))

    @overload
    def requests(
        self, api: RequestClass[RequestT, ResponseT], **filters: Unpack[RequestFilters]
    ) -> RequestHistory[RequestT, ResponseT | None]: ...
    @overload
    def requests(self, api: type[StructT], **filters: Unpack[RequestFilters]) -> RequestHistory[StructT, Any]: ...
    @overload
    def requests(self, api: str | None = None, **filters: Unpack[RequestFilters]) -> RequestHistory[Any, Any]: ...
    def requests(self, api: Any = None, **filters: Unpack[RequestFilters]) -> RequestHistory[Any, Any]:
        """The requests until now that match all filters, each with its response; also after the cluster has stopped.

        api: the class of the requests, by which type checkers find the types of `exchange.request` and
        `exchange.response`; or the name, "ShareFetch"; all when None.
        Raises: ValueError for an unknown API, a field that its requests lack, or a filter that they cannot match;
        TypeError for an unknown filter.
        """
        return _ask(self._snapshot(), api, filters)

    def assert_sent(self, api: Api, **filters: Unpack[RequestFilters]) -> RequestHistory[Any, Any]:
        """Assert that such a request was sent. Returns: all of them.

        Raises: AssertionError with the nearest ones; as `requests`.
        """
        __tracebackhide__ = True
        return _ask(self._snapshot(), api, filters).assert_sent()

    def assert_never(self, api: Api, **filters: Unpack[RequestFilters]) -> None:
        """Assert that no such request was sent. Raises: AssertionError with those that were; as `requests`."""
        __tracebackhide__ = True
        _ask(self._snapshot(), api, filters).assert_never()

    def assert_count(self, api: Api, count: int, **filters: Unpack[RequestFilters]) -> RequestHistory[Any, Any]:
        """Assert the number of such requests. Returns: all of them.

        Raises: AssertionError with them and the nearest others; as `requests`.
        """
        __tracebackhide__ = True
        return _ask(self._snapshot(), api, filters).assert_count(count)

    def assert_order(self, *steps: Api | RequestHistory[Any, Any], **filters: Unpack[RequestFilters]) -> None:
        """Assert that the first request of each kind came after the step before it; others may come between.

        steps: APIs, or questions with conditions of their own, `kafka.requests("Produce").where(acks=-1)`. The filters
        apply to the APIs. A kind that is named again needs a further request: `assert_order("Produce", "EndTxn",
        "Produce")`.
        Raises: AssertionError with the order that was seen; ValueError for fewer than two steps; as `requests`.
        """
        __tracebackhide__ = True
        from mockbroker.journal.request_history import RequestHistory
        from mockbroker.journal.request_order import assert_request_order

        snapshot = self._snapshot()
        histories = [step if isinstance(step, RequestHistory) else _ask(snapshot, step, filters) for step in steps]
        assert_request_order(histories, snapshot.topic_names)

    def conformance_notes(self, *, ignore: Collection[str] = (), client_id: str | None = None) -> list[Note]:
        """What clients did wrong until now though the cluster accepted it, by the rules of docs/conformance.md.

        ignore: ids of rules to leave out. client_id: only of clients with this id. Also after the cluster has stopped.
        Raises: ValueError for an unknown rule.
        """
        return self._observe_journal().find_notes(ignore, client_id)

    def assert_conformant(self, *, ignore: Collection[str] = (), client_id: str | None = None) -> None:
        """Assert that there are no conformance notes. Raises: AssertionError with the notes; as `conformance_notes`.

        Of a journal that has dropped its oldest exchanges, only the others are looked at.
        """
        __tracebackhide__ = True
        self._observe_journal().assert_conformant(ignore, client_id)

    def _observe_journal(self) -> ObservedJournal:
        """Imported on first use: a cluster starts without the rules."""
        from mockbroker.journal.conformance import ObservedJournal

        if self._thread is None:
            return ObservedJournal.copy(self._started().core.journal)
        return self._read(lambda server: ObservedJournal.copy(server.core.journal))

    def _snapshot(self) -> Snapshot:
        from mockbroker.journal.request_history import Snapshot

        if self._thread is None:
            return Snapshot.from_journal(self._started().core.journal)
        return self._read(lambda server: Snapshot.from_journal(server.core.journal))


class AsyncHistory:
    """The checks of conformance as coroutines, in `aio`: arguments, results and errors are the same.

    The other methods of `HistoryMethods` return at once.
    """

    def __init__(self, cluster: HistoryMethods) -> None:
        self._history = cluster

    async def conformance_notes(self, *, ignore: Collection[str] = (), client_id: str | None = None) -> list[Note]:
        """As `Cluster.conformance_notes`."""
        return await asyncio.to_thread(self._history.conformance_notes, ignore=ignore, client_id=client_id)

    async def assert_conformant(self, *, ignore: Collection[str] = (), client_id: str | None = None) -> None:
        """As `Cluster.assert_conformant`."""
        __tracebackhide__ = True
        await asyncio.to_thread(self._history.assert_conformant, ignore=ignore, client_id=client_id)


def _ask(snapshot: Snapshot, api: Api | None, filters: RequestFilters) -> RequestHistory[Any, Any]:
    """Imported on first use: a cluster starts without the modules of questions."""
    from mockbroker.journal.request_history import RequestHistory

    return RequestHistory.filtered(snapshot, api, filters)
