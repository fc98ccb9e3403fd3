"""A member of a share group that does by chance what real ones do, and what broken ones do."""

from __future__ import annotations

from collections.abc import Callable

from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from mockbroker.sim.chance import do_one
from mockbroker.sim.ledger import RENEW
from mockbroker.sim.said import Place, Said, runs_of
from mockbroker.sim.share_client import Link, ShareClient

#: After so many heartbeats without an assignment something is wrong.
_PATIENCE = 8


class Member(ShareClient):
    """A small state machine: joins, fetches, acknowledges, forgets, crashes, comes back. One `act` is one deed."""

    _vain = 0

    # Deeds.

    def act(self) -> str:
        """Do something that is possible now; what it was, in a few words."""
        deeds: list[tuple[int, Callable[[], str]]] = [(4, self.heartbeat)]
        if self.member_epoch is not None:
            deeds += [(30, self.fetch), (14, self.acknowledge), (3, self.renew), (2, self.learn_leaders)]
            deeds += [(2, self.forget_held), (2, self.close_session), (1, self.leave), (2, self.crash)]
            deeds += [(1, self.reopen), (1, self.send_wrong_epoch), (2, self.acknowledge_hastily)]
        return f"{self.member_id} {do_one(self._rng, deeds)}"

    def heartbeat(self) -> str:
        """Join or stay."""
        connection = self._to_coordinator()
        if connection is None:
            return "finds no coordinator"
        joins = self.member_epoch is None
        request = ShareGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=0 if joins else self.member_epoch or 0,
            subscribed_topic_names=self.topics if joins else None,
        )
        self._world.wire.ask(connection, request, 1, self._heard)
        return "joins" if joins else "beats"

    def leave(self) -> str:
        """Leave the group, with sessions and records as they are."""
        connection = self._to_coordinator()
        if connection is None or self.member_epoch is None:
            return "cannot leave"
        request = ShareGroupHeartbeatRequest(group_id=self.group_id, member_id=self.member_id, member_epoch=-1)
        self._world.wire.ask(connection, request, 1, lambda answer: None)
        self.member_epoch, self.assigned = None, set()
        self._world.coverage.count("member left")
        return "leaves"

    def fetch(self) -> str:
        """Fetch from a node what is assigned there, perhaps with acknowledgements."""
        link = self._link_with_work()
        if link is None:
            return "has nothing to fetch"
        said = self._choose_said(link) if link.epoch > 0 and self._rng.random() < 0.5 else {}
        return self._send_fetch(link, said)

    def acknowledge(self) -> str:
        """Acknowledge alone some of what is held from one node."""
        link = self._free_link(with_session=True)
        if link is None:
            return "has no session"
        return self._send_acknowledge(link, link.connection, self._choose_said(link))

    def acknowledge_hastily(self) -> str:
        """Acknowledge on a second connection while a fetch waits on the first, as no real client does."""
        for link in self.links.values():
            if link.epoch > 0 and self._world.wire.busy(link.connection):
                if link.hasty is None:
                    link.hasty = self._connect(link.node_id)
                if link.hasty is not None and not self._world.wire.busy(link.hasty):
                    self._world.coverage.count("used elsewhere while parked")
                    return "in haste " + self._send_acknowledge(link, link.hasty, self._choose_said(link))
        return "is in no haste"

    def renew(self) -> str:
        """Renew locks."""
        if not self._world.speech.is_released:
            return "knows no renewal"
        link = self._free_link(with_session=True)
        said = self._choose_said(link, types=(RENEW, RENEW, 1)) if link is not None else {}
        if link is None or not said:
            return "has nothing to renew"
        return self._send_acknowledge(link, link.connection, said, renews=True)

    def forget_held(self) -> str:
        """Forget to acknowledge: only the locks will give these records back."""
        self.held.clear()
        return "forgets what it holds"

    def close_session(self) -> str:
        """End a session in good manners, by a last acknowledgement or by a last fetch."""
        link = self._free_link(with_session=True)
        if link is None:
            return "has no session to close"
        said = self._choose_said(link) if self._rng.random() < 0.5 else {}
        link.epoch = -1
        if self._rng.random() < 0.5:
            return "closes: " + self._send_acknowledge(link, link.connection, said)
        return "closes: " + self._send_fetch(link, said)

    def reopen(self) -> str:
        """Open a session over the one that is there: nothing that was held is released."""
        link = self._free_link(with_session=True)
        if link is None:
            return "has no session to replace"
        link.epoch = 0
        self._world.coverage.count("session replaced")
        return "reopens: " + self._send_fetch(link, {})

    def send_wrong_epoch(self) -> str:
        """Ask in an epoch that is not next."""
        link = self._free_link(with_session=True)
        if link is None:
            return "has no session to mistake"
        request = self._fetch_request(link, link.epoch + self._rng.choice((-1, 1, 7)) or 3, {}, 0)
        self._world.wire.ask(link.connection, request, 2, self._note_wrong_epoch)
        return "sends a wrong epoch"

    def crash(self) -> str:
        """Lose all connections without a good-bye, and with them all memory."""
        for node_id in list(self.links):
            self._drop(node_id)
        if self._coordinator is not None:
            self._world.wire.hang_up(self._coordinator)
            self._coordinator = None
        self.held.clear()
        self.member_epoch = None if self._rng.random() < 0.5 else self.member_epoch
        self._world.coverage.count("client crashed")
        return "crashes"

    def take_everything(self) -> bool:
        """Fetch and accept, as long as there is anything; whether there was something to do."""
        if self.member_epoch is None or self.assigned != set(self._world.places()):
            self._vain += 1
            if self._vain % _PATIENCE == 0 and self.member_epoch is not None:
                # What an earlier group of this name has left is of a higher epoch, and fences the initialisation:
                # each member that comes and goes takes the group's own epoch nearer to it.
                self.leave()
                self._world.coverage.count("initialisation fenced")
            self.heartbeat()
            self._world.advance(2_000)
            return True
        self.learn_leaders()
        taken = False
        for place in sorted(self.assigned):
            node_id = self.leaders[place]
            if node_id not in self.links:
                connection = self._connect(node_id)
                assert connection is not None
                self.links[node_id] = Link(node_id, connection)
            link = self.links[node_id]
            if link.epoch > 0 and any(self.held.get(place) for place in link.places):
                self._send_acknowledge(link, link.connection, self._accept_all(link))
                self._world.advance(0)
            self._send_fetch(link, {}, wait_ms=5)
            self._world.advance(5)
            taken = taken or any(self.held.get(place) for place in link.places)
        return taken

    def _accept_all(self, link: Link) -> dict[Place, list[Said]]:
        return {
            place: [Said(first, last, (1,)) for first, last in runs_of(sorted(self.held[place]))]
            for place in sorted(link.places)
            if self.held.get(place)
        }
