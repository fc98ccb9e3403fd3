"""An application that sends an order, and checks by the control of mockbroker that its producer sent it again."""

import json
import os
import urllib.request

from confluent_kafka import Producer


def control(path, body=None):
    """The answer of an operation of the control."""
    request = urllib.request.Request(
        os.environ["CONTROL_URL"] + path,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {os.environ['MOCKBROKER_CONTROL_TOKEN']}",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request, timeout=10) as response:
        return json.load(response)


control("/v1/faults", {"when": {"api": "Produce", "times": 1}, "then": {"error": "NOT_LEADER_OR_FOLLOWER"}})
producer = Producer({"bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"], "client.id": "shop"})
producer.produce("orders", b"one espresso")
assert producer.flush(10) == 0, "the order was not sent within ten seconds"
sent = control("/v1/exchanges?api=Produce&clientId=shop")["count"]
assert sent == 2, f"expected two requests of Produce, but there are {sent}"
assert control("/v1/faults/misses")["misses"] == []
print("the order was sent again after the leader had moved")
