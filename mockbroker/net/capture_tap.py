"""`CaptureTap`: writes the traffic of the sockets to a pcapng file that Wireshark opens (`--capture`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from kwire.capture.export.pcapng_writer import PcapngWriter, TcpConversation
from mockbroker.log.subjects import SERVER

Address = tuple[str, int]

_TLS_COMMENT = "TLS: this is the plaintext as the broker saw it, not the bytes of the wire."


class CaptureTap:
    """Writes every connection as a TCP conversation, with the time stamps of the network server.

    The broker runs above the operating system and sees bytes, not packets: segments, sequence numbers and
    handshakes are generated as on a network without loss. Times are nanoseconds since 1970.
    """

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("wb")
        self._writer = PcapngWriter(self._file)
        self._conversations: dict[int, TcpConversation] = {}
        self._dirty = True
        self._has_failed = False

    def record_connection(self, number: int, client: Address, server: Address, *, at_ns: int, encrypted: bool) -> None:
        """Write the handshake of an accepted connection."""
        conversation = TcpConversation(client, server)
        self._conversations[number] = conversation
        for index, packet in enumerate(conversation.open()):
            self._write(at_ns, packet, _TLS_COMMENT if encrypted and index == 0 else None)

    def record_received(self, number: int, data: bytes, *, at_ns: int) -> None:
        """Write bytes that the client sent."""
        for packet in self._conversations[number].from_client(data):
            self._write(at_ns, packet)

    def record_sent(self, number: int, data: bytes, *, at_ns: int, faults: Sequence[str] = ()) -> None:
        """Write bytes that were sent to the client; faults: that changed them, for a comment on the first packet."""
        comment = "; ".join(f"fault: {name}" for name in faults) or None
        for packet in self._conversations[number].from_server(data):
            self._write(at_ns, packet, comment)
            comment = None

    def record_note(self, number: int, text: str, *, at_ns: int) -> None:
        """Write a comment, on an acknowledgement that the server sends."""
        self._write(at_ns, self._conversations[number].acknowledge(by_client=False), text)

    def record_close(self, number: int, *, at_ns: int, by_client: bool, is_abrupt: bool = False) -> None:
        """Write the end of a connection; `is_abrupt`: by a reset."""
        conversation = self._conversations.pop(number, None)
        if conversation is not None:
            end = conversation.reset if is_abrupt else conversation.close
            for packet in end(by_client=by_client):
                self._write(at_ns, packet)

    def flush(self) -> None:
        """Flush the file, so that a reader sees the packets now."""
        if self._dirty:
            self._dirty = False
            self._try(self._file.flush)

    def close(self) -> None:
        """Flush and close the file."""
        self._try(self._file.close)

    def _write(self, at_ns: int, packet: bytes, comment: str | None = None) -> None:
        if not self._has_failed:
            self._try(lambda: self._writer.write_packet(at_ns, packet, comment))
            self._dirty = not self._has_failed

    def _try(self, write: Callable[[], object]) -> None:
        """Write; the capture ends with the first failure, as of a full disk, and the cluster goes on without it."""
        try:
            write()
        except OSError as error:
            if not self._has_failed:
                self._has_failed = True
                template = "the capture %(path)s ends here: it cannot be written: %(reason)s"
                SERVER.warning(template, path=self._file.name, reason=str(error))
