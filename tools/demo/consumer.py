"""A share consumer process with a given behaviour; prints deliveries and acknowledgements as JSON lines.

`python -m tools.demo.consumer BOOTSTRAP GROUP TOPIC BEHAVIOUR`; a line on stdin, or its end, stops it.
"""

from __future__ import annotations

import json
import select
import sys
from collections.abc import Iterable

from confluent_kafka import AcknowledgeType, Message, ShareConsumer

#: Behaviours that keep their first records; the others acknowledge all of them.
HOLDING = ("crash", "stall")


def main() -> int:
    """Consume until a stop is requested."""
    bootstrap, group, topic, behaviour = sys.argv[1:]
    names = {"bootstrap.servers": bootstrap, "group.id": group, "client.id": f"demo-{behaviour}"}
    consumer = ShareConsumer({**names, "share.acknowledgement.mode": "explicit"})
    consumer.subscribe([topic])
    _print_event("subscribed")
    while not _stop_requested():
        messages = [message for message in consumer.poll(0.2) if message.error() is None]
        for message in messages:
            _print_event("delivered", message, count=message.delivery_count())
        if messages and behaviour in HOLDING:
            _print_event("holding")
            sys.stdin.readline()  # The connection stays open, and the records stay locked.
            break
        if messages:
            _acknowledge(consumer, behaviour, messages)
    consumer.close()
    _print_event("closed")
    return 0


def _acknowledge(consumer: ShareConsumer, behaviour: str, messages: Iterable[Message]) -> None:
    done = [(message, _acknowledge_type(behaviour, message)) for message in messages]
    for message, kind in done:
        consumer.acknowledge(message, kind)
    consumer.commit_sync(10)
    for message, kind in done:
        _print_event("acknowledged", message, type=kind.name.lower())


def _acknowledge_type(behaviour: str, message: Message) -> AcknowledgeType:
    """`reject` rejects every seventh record; `release` releases each record at its first delivery."""
    offset = message.offset()
    assert offset is not None  # A delivered record has one.
    if behaviour == "reject" and offset % 7 == 0:
        return AcknowledgeType.REJECT
    if behaviour == "release" and message.delivery_count() == 1:
        return AcknowledgeType.RELEASE
    return AcknowledgeType.ACCEPT


def _stop_requested() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def _print_event(event: str, message: Message | None = None, **more: object) -> None:
    place = {} if message is None else {"partition": message.partition(), "offset": message.offset()}
    print(json.dumps({"event": event, **place, **more}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
