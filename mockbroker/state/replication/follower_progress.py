"""`FollowerProgress`: how far a follower has fetched, as its leader knows it. Source: Kafka's Replica."""

from __future__ import annotations

import msgspec

#: Of a follower that has not fetched in this leadership.
UNKNOWN_OFFSET = -1


class FollowerProgress(msgspec.Struct):
    """One follower of a partition.

    log_start_offset, end_offset: of its log, as in its last fetch. caught_up_ms: when it had all records of the leader
    last; 0 for never. fetched_ms: of its last fetch. leader_end_offset: the end of the leader's log at that time.
    """

    log_start_offset: int = UNKNOWN_OFFSET
    end_offset: int = UNKNOWN_OFFSET
    caught_up_ms: int = 0
    fetched_ms: int = 0
    leader_end_offset: int = UNKNOWN_OFFSET

    def record_fetch(self, offset: int, *, log_start_offset: int, leader_end_offset: int, now_ms: int) -> None:
        """It fetches from an offset, and so has all records below it.

        A follower that reads what the leader had at its previous fetch was caught up at the time of that one, even
        if the leader's log grows with every fetch.
        """
        if offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.log_start_offset, self.end_offset = log_start_offset, offset
        self.leader_end_offset = max(leader_end_offset, self.leader_end_offset)
        self.fetched_ms = now_ms

    def start_epoch(self, leader_end_offset: int, *, is_in_sync: bool, is_new_leader: bool, now_ms: int) -> None:
        """A leader epoch begins: a follower in sync has all time to fetch; a new leader knows no offset of it."""
        since_ms = now_ms if is_in_sync else 0
        self.caught_up_ms = since_ms
        if is_new_leader:
            self.log_start_offset = self.end_offset = self.leader_end_offset = UNKNOWN_OFFSET
            self.fetched_ms = 0
        else:
            self.leader_end_offset, self.fetched_ms = leader_end_offset, since_ms

    def is_caught_up(self, leader_end_offset: int, *, now_ms: int, lag_max_ms: int) -> bool:
        """Whether it has all records, or had them less than `replica.lag.time.max.ms` ago."""
        return self.end_offset == leader_end_offset or now_ms - self.caught_up_ms <= lag_max_ms
