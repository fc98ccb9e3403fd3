"""One real share consumer with a habit, as a process of its own; prints what it got and did as JSON lines.

`python -m tools.demo.consumer BOOTSTRAP GROUP TOPIC HABIT`, until a line comes in on stdin or it closes.
"""

from __future__ import annotations

import json
import select
import sys
from collections.abc import Iterable

from confluent_kafka import AcknowledgeType, Message, ShareConsumer

#: Habits that settle what they get; the others hold on to their first records.
SETTLING = ("accept", "reject", "release")
HOLDING = ("crash", "stall")


def main() -> int:
    """Consume until told to stop."""
    bootstrap, group, topic, habit = sys.argv[1:]
    consumer = ShareConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": f"demo-{habit}",
            "share.acknowledgement.mode": "explicit",
        }
    )
    consumer.subscribe([topic])
    _say({"event": "subscribed"})
    while not _told_to_stop():
        messages = [message for message in consumer.poll(0.2) if message.error() is None]
        for message in messages:
            _say(
                {
                    "event": "delivered",
                    "partition": message.partition(),
                    "offset": message.offset(),
                    "count": message.delivery_count(),
                }
            )
        if messages and habit in HOLDING:
            _say({"event": "holding"})
            sys.stdin.readline()  # The connection stays open, and the records stay locked.
            break
        if messages:
            _settle(consumer, habit, messages)
    consumer.close()
    _say({"event": "closed"})
    return 0


def _settle(consumer: ShareConsumer, habit: str, messages: Iterable[Message]) -> None:
    done = []
    for message in messages:
        kind = _verdict(habit, message)
        consumer.acknowledge(message, kind)
        done.append((message, kind))
    consumer.commit_sync(10)
    for message, kind in done:
        _say(
            {
                "event": "acknowledged",
                "partition": message.partition(),
                "offset": message.offset(),
                "type": kind.name.lower(),
            }
        )


def _verdict(habit: str, message: Message) -> AcknowledgeType:
    """Reject refuses every seventh order; release gives back each record that it sees for the first time."""
    offset = message.offset()
    assert offset is not None  # A delivered record has one.
    if habit == "reject" and offset % 7 == 0:
        return AcknowledgeType.REJECT
    if habit == "release" and message.delivery_count() == 1:
        return AcknowledgeType.RELEASE
    return AcknowledgeType.ACCEPT


def _told_to_stop() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def _say(event: dict[str, object]) -> None:
    print(json.dumps(event), flush=True)


if __name__ == "__main__":
    sys.exit(main())
