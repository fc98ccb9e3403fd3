"""Selects the packets between some hosts, by the endpoints in their headers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kwire.capture.index.arrays import Bools, Words
from kwire.capture.index.flows.endpoint_pairs import EndpointPairs
from kwire.capture.index.scan.packet_headers import endpoints_of_words

ReadsHosts = Callable[[bytes, bytes], bool]
"""Whether the packets between two hosts are read. It must not depend on their order."""

_IPV6 = np.uint64(1 << 63)
_PORT = np.uint64(0xFFFF)


class HostSelection:
    """Selects packets; what is decided of two hosts is stored."""

    def __init__(self, reads_hosts: ReadsHosts) -> None:
        """`reads_hosts` is called once for each pair of hosts."""
        self.reads_hosts = reads_hosts
        self._hosts = EndpointPairs()
        self._is_read: Bools = np.zeros(0, dtype=np.bool_)

    def includes(self, ends: Words) -> Bools:
        """Whether each packet is read. Args: ends: as in `PacketHeaders`."""
        hosts = ends.copy()
        is_ipv4 = hosts[:, 4] < _IPV6
        hosts[:, 4] &= _IPV6
        for column in (1, 3):
            hosts[is_ipv4, column] &= ~_PORT
        number = self._hosts.number_pairs(hosts)
        found = [self._decide(words) for words in self._hosts.words[len(self._is_read) :]]
        self._is_read = np.append(self._is_read, np.array(found, dtype=np.bool_))
        chosen: Bools = self._is_read[number]
        return chosen

    def _decide(self, words: tuple[int, ...]) -> bool:
        (host, _), (other, _) = endpoints_of_words(words)
        return self.reads_hosts(host, other)
