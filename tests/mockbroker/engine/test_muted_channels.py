"""Muted connections: until when, and what is reported at the end."""

from __future__ import annotations

from mockbroker.broker.node import Node
from mockbroker.cluster_services.inter_broker import InterBrokerChannel
from mockbroker.engine.active_request import Connection
from mockbroker.engine.context import ConnectionInfo
from mockbroker.engine.muted_channels import MutedChannels
from mockbroker.engine.output import Output, Unmute


class _Channels:
    def __init__(self) -> None:
        self.channel: InterBrokerChannel[Node] = InterBrokerChannel({})
        self.output: list[Output] = []
        self.finished: list[int] = []
        self.muted = MutedChannels(
            self.channel, emit=self.output.append, finish=lambda connection: self.finished.append(connection.info.id)
        )

    def connect(self, number: int) -> Connection:
        return Connection(ConnectionInfo(number, 0, "127.0.0.1", 50_000 + number))


def test_a_muted_connection_goes_on_at_its_time() -> None:
    channels = _Channels()
    connection = channels.connect(7)
    channels.muted.mute(connection, 500, now_ms=1_000)
    is_busy, is_muted = connection.is_busy, 7 in channels.muted
    channels.channel.expire(now_ms=1_499)
    before = list(channels.finished)
    channels.channel.expire(now_ms=1_500)

    assert (is_busy, is_muted, before) == (True, True, [])
    assert channels.finished == [7]
    assert channels.output == [Unmute(7)]
    assert not channels.muted


def test_a_connection_that_has_ended_is_not_continued() -> None:
    channels = _Channels()
    channels.muted.mute(channels.connect(7), 500, now_ms=1_000)
    channels.muted.forget(7)
    channels.channel.expire(now_ms=1_500)

    assert (channels.finished, channels.output) == ([], [])


def test_only_the_end_for_a_waiting_request_is_awaited() -> None:
    channels = _Channels()
    idle, waiting = channels.connect(1), channels.connect(2)
    channels.muted.mute(idle, 100, now_ms=1_000)
    channels.muted.mute(waiting, 900, now_ms=1_000)
    without_request = channels.muted.next_awaited_ms()
    waiting.waiting.append((b"frame", 0, None))

    assert without_request is None
    assert channels.muted.next_awaited_ms() == 1_900
