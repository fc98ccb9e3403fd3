"""The levels `flows` and `packets`: connections and their TCP packets, whether they carry Kafka or not.

Frames are followed only to learn which connections are Kafka and who is their client; no body is decoded.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kwire.capture.reassembly import Connections
from kwire.capture.rows import Row, conn_id
from kwire.capture.talks import Talks, address, is_excluded
from kwire.capture.values import Closed, Flow, Foreign, Gap, Segment, StreamEvent, Trouble
from kwire.capture.watching import Ended, Seen, Watch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kwire.capture.keylog import KeyLog
    from kwire.capture.options import Options

LEVELS = frozenset({"flows", "packets"})
# Packets wait until it is known which side of their connection is the client; of more, the first go without.
HELD_PACKETS_MAX = 16_384
_FLAGS = ("FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR")

Sighting = Ended | Seen | Foreign | Trouble


def sightings(
    segments: Iterable[Segment | Trouble], options: Options, keys: KeyLog | None = None, *, each_packet: bool
) -> Iterator[Sighting]:
    """Every connection at its end; with `each_packet` every packet too, in the order of the file."""
    following = Following(options, keys, each_packet=each_packet)
    for segment in segments:
        if isinstance(segment, Trouble):
            yield segment
            continue
        yield from following.take(segment)
        yield from following.settled()
    yield from following.close()


class Following:
    """The rooms of the pipeline up to frames, with a watch on what goes through them."""

    def __init__(self, options: Options, keys: KeyLog | None, *, each_packet: bool) -> None:
        self._options = options
        self._each_packet = each_packet
        self._watch = Watch()
        self._connections = Connections(self)
        self._talks = Talks(options, keys)
        self._held: deque[Seen] = deque()

    def take(self, segment: Segment) -> Iterator[Sighting]:
        """What a segment completes."""
        return self._through(self._connections.take(segment))

    def settled(self) -> Iterator[Seen]:
        """The packets of which all is known, and those that have waited for too long."""
        held = self._held
        while held and (_is_settled(held[0].flow) or len(held) > HELD_PACKETS_MAX):
            seen = held.popleft()
            if not (seen.flow is not None and is_excluded(seen.flow, self._options)):
                yield seen

    def close(self) -> Iterator[Sighting]:
        """What is left at the end of the capture."""
        yield from self._through(self._connections.close())
        yield from self.settled()

    def expire(self, before_ts: int) -> Iterator[Sighting]:
        """End the connections that have been quiet since this time."""
        yield from self._through(self._connections.expire(before_ts))
        yield from self.settled()

    def __call__(self, flow: Flow | None, side: int, segment: Segment) -> None:
        """Watch a segment: `Connections` calls this."""
        oddity = self._watch.take(flow, side, segment)
        if not self._each_packet:
            return
        seen = Seen(
            segment.packet,
            segment.ts,
            flow,
            side,
            segment.link,
            segment.source,
            segment.target,
            segment.seq,
            segment.ack,
            segment.flags,
            segment.window,
            len(segment.payload),
            segment.missing,
            oddity,
        )
        self._held.append(seen)

    def _through(self, events: Iterable[StreamEvent]) -> Iterator[Sighting]:
        for event in events:
            if isinstance(event, Gap) and event.why == "lost":
                self._watch.lost(event.flow, event.side, event.size)
            for found in self._talks.take(event):
                if isinstance(found, Foreign):
                    yield found
            if isinstance(event, Closed):
                ended = self._watch.ended(event)
                if not is_excluded(event.flow, self._options):
                    yield ended


def _is_settled(flow: Flow | None) -> bool:
    return flow is None or flow.kind is not None


def flow_row(file: str, ended: Ended) -> Row:
    """The row of a connection. Args: file: what the column of that name says."""
    flow, traffic = ended.flow, ended.traffic
    side = flow.client_side
    client, broker = traffic.sides[side], traffic.sides[1 - side]
    (client_ip, client_port), (broker_ip, broker_port) = flow.ends[side], flow.ends[1 - side]
    return {
        "file": file,
        "conn_id": conn_id(flow),
        "stream_epoch": flow.epoch,
        "client_ip": address(client_ip),
        "client_port": client_port,
        "broker_ip": address(broker_ip),
        "broker_port": broker_port,
        "link": flow.link,
        "tls": flow.is_tls,
        "kind": flow.kind,
        "first_ts": traffic.first_ts,
        "last_ts": traffic.last_ts,
        "first_packet": traffic.first_packet or None,
        "last_packet": traffic.last_packet or None,
        "packets_client": client.packets,
        "packets_broker": broker.packets,
        "bytes_client": client.size,
        "bytes_broker": broker.size,
        "retransmits_client": client.retransmits,
        "retransmits_broker": broker.retransmits,
        "lost_bytes_client": client.lost_size,
        "lost_bytes_broker": broker.lost_size,
        "zero_windows_client": client.zero_windows,
        "zero_windows_broker": broker.zero_windows,
        "rtt_us": None if traffic.rtt_ns is None else traffic.rtt_ns // 1000,
        "ended": ended.why,
        "ended_by": _ender(ended, side),
    }


def _ender(ended: Ended, client_side: int) -> str | None:
    """Who sent the first FIN or RST, where that is how it ended."""
    if ended.why not in ("fin", "rst") or ended.traffic.ender is None:
        return None
    return "client" if ended.traffic.ender == client_side else "broker"


def packet_row(file: str, seen: Seen) -> Row:
    """The row of a packet. Args: file: what the column of that name says."""
    flow = seen.flow
    is_side_known = flow is not None and (flow.client is not None or flow.opener is not None)
    return {
        "file": file,
        "number": seen.packet or None,
        "ts": seen.ts,
        "conn_id": None if flow is None else conn_id(flow),
        "stream_epoch": None if flow is None else flow.epoch,
        "from_client": seen.side == flow.client_side if flow is not None and is_side_known else None,
        "source_ip": address(seen.source[0]),
        "source_port": seen.source[1],
        "target_ip": address(seen.target[0]),
        "target_port": seen.target[1],
        "link": seen.link,
        "seq": seen.seq,
        "ack": seen.ack,
        "flags": flags_text(seen.flags),
        "window": seen.window,
        "payload_bytes": seen.size,
        "missing_bytes": seen.missing,
        "oddity": seen.oddity,
    }


def flags_text(flags: int) -> str:
    """The flags of a TCP header by name, as `SYN,ACK`."""
    return ",".join(name for bit, name in enumerate(_FLAGS) if flags >> bit & 1)
