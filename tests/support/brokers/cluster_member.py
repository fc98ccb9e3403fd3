"""A share-group member on a cluster, with a session on each leader."""

from __future__ import annotations

from typing import Any, Protocol

from tests.support.brokers.captured_share_members import Acknowledgements, Json, Member

NOT_LEADER = 6


class ClusterState(Protocol):
    """The properties of a cluster workload that a member needs."""

    addresses: dict[int, str]
    topic_id: str

    def leaders(self, client_id: str) -> dict[int, int]:
        """The leaders by Metadata, with the client id of a member."""


class ClusterMember:
    """A member with a session on each leader. It reads Metadata after NOT_LEADER_OR_FOLLOWER, as clients do."""

    def __init__(self, workload: ClusterState, number: int, group: str) -> None:
        self.workload, self.number, self.group = workload, number, group
        self.sessions: dict[int, Member] = {}
        self.leaders: dict[int, int] = {}

    def refresh_leaders(self) -> None:
        """Read the leaders; sessions on brokers that are no longer leaders remain open."""
        self.leaders = self.workload.leaders(f"member-{self.number}")

    def close(self) -> None:
        """Close all connections."""
        for member in self.sessions.values():
            member.client.close()
        self.sessions = {}

    def member(self, node: int) -> Member | None:
        """The session on a node; None if the node cannot be reached."""
        if node not in self.sessions:
            address = self.workload.addresses[node]
            try:
                self.sessions[node] = Member(address, self.number, self.group, self.workload.topic_id, ())
            except OSError:
                return None
        return self.sessions[node]

    def drop(self, node: int) -> None:
        """Remove a broken connection."""
        self.sessions.pop(node).client.close()
        self.refresh_leaders()

    def check_leaders(self, response: Json) -> None:
        """Read the leaders again after NOT_LEADER_OR_FOLLOWER."""
        rows = [row for topic in response["responses"] for row in topic["partitions"]]
        if any(NOT_LEADER in (row["errorCode"], row.get("acknowledgeErrorCode")) for row in rows):
            self.refresh_leaders()

    def fetch(self, node: int, acknowledgements: Acknowledgements, **more: Any) -> None:
        """Fetch the partitions of which the node is the last known leader."""
        member = self.member(node)
        if member is None:
            self.refresh_leaders()
            return
        led_partitions = [number for number, leader in self.leaders.items() if leader == node]
        member.partitions = led_partitions
        new = sorted(set(led_partitions) - member.session_partitions) if member.epoch else []
        listed = {**{number: [] for number in new}, **(acknowledgements if member.epoch else {})}
        kept = {*led_partitions, *acknowledgements}
        forgotten = sorted(member.session_partitions - kept) if member.epoch else []
        if forgotten:
            more["forgottenTopicsData"] = [{"topicId": member.topic_id, "partitions": forgotten}]
        try:
            response = member.fetch(listed, **more)
        except OSError:
            self.drop(node)
            return
        continued = (member.session_partitions | kept) - set(forgotten)
        member.session_partitions = continued if member.epoch > 1 else set(led_partitions)
        self._process_response(member, response)

    def acknowledge(self, node: int, acknowledgements: Acknowledgements, *, renews: bool = False) -> None:
        """Acknowledge, if there is a session."""
        member = self.sessions.get(node)
        if member is None or not member.epoch:
            return
        try:
            self._process_response(member, member.acknowledge(acknowledgements, renews=renews))
        except OSError:
            self.drop(node)

    def close_session(self, node: int, acknowledgements: Acknowledgements) -> None:
        """Close the session on a node."""
        member = self.sessions.get(node)
        if member is None or not member.epoch:
            return
        try:
            member.close_session(acknowledgements)
            member.session_partitions = set()
        except OSError:
            self.drop(node)

    def _process_response(self, member: Member, response: Json) -> None:
        if response["errorCode"]:
            member.epoch, member.acquired, member.session_partitions = 0, set(), set()
        self.check_leaders(response)
