"""Fetch sessions (KIP-227) and share sessions (KIP-932), followed: what an incremental request stands for.

A request of a session names only what changes; the broker remembers the rest. So this room remembers it too: from the
full request that opened the session, as long as the epochs show that no request in between was missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kwire import uuids
from kwire.capture.facts import Topic
from kwire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kwire.capture.exchange import Exchange
    from kwire.capture.topic_names import TopicNames
    from kwire.capture.values import End

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
_EPOCH_MAX = 2**31 - 1
FETCHES = _FETCH, _SHARE_FETCH, _SHARE_ACKNOWLEDGE = 1, 78, 79
_FIRST_FETCH_VERSION = 7

# What is remembered of all sessions of a capture; of more, those used last.
SESSIONS_MAX = 50_000
PARTITIONS_MAX = 1_000_000
# What is told of one session, and that with each of its requests.
SESSION_PARTITIONS_MAX = 20_000

# The broker, and what names a session there: an id, or group and member.
_Key = tuple["End", object]
# A topic by id or name, and numbers of its partitions.
_Named = tuple[str | bytes, Sequence[int]]
_NO_NUMBERS: frozenset[int] = frozenset()
_GONE = frozenset({ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.SHARE_SESSION_NOT_FOUND})


class Session(NamedTuple):
    """What an exchange says of its session. `id` is that of a fetch session; share sessions have group and member.

    `partitions` are those of the session after the request; None where that is not known, there is none any more, or
    they are more than are told.
    """

    id: int | None
    epoch: int
    partitions: Partitions | None

    @property
    def is_incremental(self) -> bool:
        """Whether the request leaves out what the session knows."""
        return self.epoch not in {INITIAL_EPOCH, FINAL_EPOCH}


class Partitions:
    """The partitions of a session at one moment; never changed, so that many exchanges can share one."""

    __slots__ = ("_text", "_told", "count", "topics")

    def __init__(self, by_topic: dict[str | bytes, frozenset[int]]) -> None:
        """Numbers by topic name or id, in the order in which topics came to the session."""
        self.topics = by_topic
        self.count = sum(map(len, by_topic.values()))
        self._text = ""
        # Whose names the text has, and as of when.
        self._told: tuple[TopicNames, int] | None = None

    def updated(self, added: Iterable[_Named], forgotten: Iterable[_Named]) -> Partitions:
        """With what a request adds, then without what it takes out."""
        changed: dict[str | bytes, frozenset[int]] = {}
        for key, numbers in added:
            had = changed.get(key, self.topics.get(key, _NO_NUMBERS))
            if not had.issuperset(numbers):
                changed[key] = had.union(numbers)
        for key, numbers in forgotten:
            changed[key] = changed.get(key, self.topics.get(key, _NO_NUMBERS)).difference(numbers)
        if not changed:
            return self
        return Partitions({key: numbers for key, numbers in {**self.topics, **changed}.items() if numbers})

    def text(self, names: TopicNames) -> str:
        """As JSON: partition numbers by topic name, by its id where no name is known."""
        if self._told != (names, names.version):
            self._text = msgspec.json.encode(self.named(names)).decode()
            self._told = names, names.version
        return self._text

    def named(self, names: TopicNames) -> dict[str, list[int]]:
        """Topics by name, by id where no name is known; their partitions in order."""
        found: dict[str, list[int]] = {}
        for key, numbers in self.topics.items():
            topic = Topic(None, key, [], 0) if isinstance(key, bytes) else Topic(key, None, [], 0)
            name, topic_id = names.name_and_id(topic)
            # A topic that was made anew has another id, and the same name.
            found[(None if name in found else name) or topic_id or ""] = sorted(numbers)
        return found


_NONE = Partitions({})


class _Known(NamedTuple):
    """A session, and the epoch of its next request; without partitions where it was closed, or is not known any more.

    `since` is the time of the request that opened or closed it. `before` is how it stood until then: a request that
    never got an answer is told when its connection ends, which may be later.
    """

    partitions: Partitions | None
    next_epoch: int
    since: int
    before: _Known | None


class Sessions:
    """The sessions of all brokers of a capture."""

    def __init__(self) -> None:
        """No session is known yet."""
        self._known: dict[_Key, _Known] = {}
        self._count = 0

    def follow(self, exchange: Exchange) -> Session | None:
        """What the exchange says of its session; None where it has none, as in most APIs."""
        request = exchange.request
        if request is None or request.body is None:
            return None
        if request.api_key == _FETCH:
            return self._fetch(exchange, request.body) if request.version >= _FIRST_FETCH_VERSION else None
        if request.api_key in {_SHARE_FETCH, _SHARE_ACKNOWLEDGE}:
            return self._share(exchange, request.body)
        return None

    def _fetch(self, exchange: Exchange, asked: msgspec.Struct) -> Session | None:
        broker = _broker(exchange)
        session_id: int = getattr(asked, "session_id", 0)
        epoch: int = getattr(asked, "session_epoch", FINAL_EPOCH)
        if epoch not in {INITIAL_EPOCH, FINAL_EPOCH}:
            return Session(session_id, epoch, self._step((broker, session_id), epoch, exchange, asked))
        # A full fetch ends the session that it names, and the answer names the one that it opens.
        self._end((broker, session_id), _time(exchange))
        is_opening = epoch == INITIAL_EPOCH and not _answer(exchange, "error_code")
        opened = _answer(exchange, "session_id") if is_opening else 0
        if opened:
            return Session(opened, epoch, self._open((broker, opened), asked, _time(exchange)))
        return Session(session_id or None, epoch, None)

    def _share(self, exchange: Exchange, asked: msgspec.Struct) -> Session:
        key = _broker(exchange), (getattr(asked, "group_id", None), getattr(asked, "member_id", None))
        epoch: int = getattr(asked, "share_session_epoch", FINAL_EPOCH)
        if epoch == FINAL_EPOCH:
            self._end(key, _time(exchange))
            return Session(None, epoch, None)
        if epoch == INITIAL_EPOCH:
            is_refused = bool(_answer(exchange, "error_code"))
            return Session(None, epoch, None if is_refused else self._open(key, asked, _time(exchange)))
        return Session(None, epoch, self._step(key, epoch, exchange, asked))

    def _open(self, key: _Key, asked: msgspec.Struct, ts: int) -> Partitions | None:
        opened, known = _NONE.updated(_added(asked), ()), self._known.get(key)
        if known is None or ts >= known.since:
            self._keep(key, _next(opened, INITIAL_EPOCH, ts, known))
        return _if_told(opened)

    def _end(self, key: _Key, ts: int) -> None:
        known = self._known.get(key)
        if known is not None and known.partitions is not None and ts >= known.since:
            self._keep(key, _Known(None, INITIAL_EPOCH, ts, known._replace(before=None)))

    def _step(self, key: _Key, epoch: int, exchange: Exchange, asked: msgspec.Struct) -> Partitions | None:
        known, ts = self._known.get(key), _time(exchange)
        if known is not None and ts < known.since:
            return _as_before(known.before, epoch, asked)
        if known is None or known.partitions is None:
            return None
        error = _answer(exchange, "error_code")
        if error and error not in _GONE:
            # What a refused request asked for is not done.
            return known.partitions
        if error or epoch != known.next_epoch:
            # A request in between was not captured, and nobody knows what it changed.
            self._end(key, ts)
            return None
        updated = known.partitions.updated(_added(asked), _forgotten(asked))
        self._keep(key, _next(updated, epoch, known.since, known.before))
        return _if_told(updated)

    def _keep(self, key: _Key, known: _Known) -> None:
        self._drop(key)
        if known.partitions is not None and known.partitions.count > SESSION_PARTITIONS_MAX:
            return
        self._known[key] = known
        self._count += _size(known)
        while len(self._known) > SESSIONS_MAX or self._count > PARTITIONS_MAX:
            self._drop(next(iter(self._known)))

    def _drop(self, key: _Key) -> None:
        known = self._known.pop(key, None)
        if known is not None:
            self._count -= _size(known)


def _next(partitions: Partitions, epoch: int, since: int, before: _Known | None) -> _Known:
    """A session behind a request of this epoch; of what was before it, one state is enough."""
    next_epoch = 1 if epoch == _EPOCH_MAX else epoch + 1
    return _Known(partitions, next_epoch, since, None if before is None else before._replace(before=None))


def _size(known: _Known) -> int:
    own, before = known.partitions, known.before
    return (own.count if own else 0) + (before.partitions.count if before and before.partitions else 0)


def _if_told(partitions: Partitions) -> Partitions | None:
    return partitions if partitions.count <= SESSION_PARTITIONS_MAX else None


def _as_before(before: _Known | None, epoch: int, asked: msgspec.Struct) -> Partitions | None:
    """What a request says that was sent before the session was opened anew."""
    if before is None or before.partitions is None or epoch != before.next_epoch:
        return None
    return _if_told(before.partitions.updated(_added(asked), _forgotten(asked)))


def _time(exchange: Exchange) -> int:
    return exchange.request.frame.ts if exchange.request is not None else 0


def _broker(exchange: Exchange) -> End:
    flow = exchange.flow
    return flow.ends[1 - flow.client_side]


def _answer(exchange: Exchange, field: str) -> int:
    """A field of the answer; 0 where there is none, for then the broker has most likely done what was asked."""
    body = None if exchange.response is None else exchange.response.body
    value: int = getattr(body, field, 0)
    return value


def _added(asked: msgspec.Struct) -> Iterator[_Named]:
    if getattr(asked, "API_KEY", None) == _SHARE_ACKNOWLEDGE:
        # An acknowledgement names partitions too, and adds none.
        return
    for topic in getattr(asked, "topics", ()):
        yield _key(topic), [_number(each) for each in topic.partitions]


def _forgotten(asked: msgspec.Struct) -> Iterator[_Named]:
    for topic in getattr(asked, "forgotten_topics_data", ()):
        yield _key(topic), topic.partitions


def _key(topic: msgspec.Struct) -> str | bytes:
    """A topic's id, its name in the versions that have none."""
    topic_id: bytes = getattr(topic, "topic_id", uuids.ZERO)
    name: str | None = getattr(topic, "topic", None)
    return topic_id if topic_id != uuids.ZERO else name or ""


def _number(partition: msgspec.Struct) -> int:
    number: int | None = getattr(partition, "partition", None)
    index: int = getattr(partition, "partition_index", 0)
    return index if number is None else number
