"""A report with everything in it, made by hand: for tests of the page that need no Spark."""

from __future__ import annotations

import random

from kwire.spark.model import AckRow, DeliveryRow, ErrorRow, FileRow, GroupRow, LatencyRow, Report, Timeline

START_US = 1_795_257_723_000_000
HOSTILE = "</script><img src=x onerror=alert(1)>"


def report(name: str = "orders") -> Report:
    """A report about a share group and its usual company; `name` is the topic, group, member and client in it."""
    chance = random.Random(7)
    traffic = {
        api: [chance.randrange(top) for _ in range(48)]
        for api, top in {
            "ShareFetch": 40,
            "Produce": 22,
            "ShareAcknowledge": 12,
            "Metadata": 5,
            "FindCoordinator": 3,
        }.items()
    } | {api: [int(chance.random() < 0.2) for _ in range(48)] for api in ("ApiVersions", "ShareGroupHeartbeat")}
    return Report(
        files=[FileRow(f"/captures/{name}.pcapng", 1_502, 1_498, 9, START_US, START_US + 47_300_000)],
        statuses={"ok": 1_498, "no_response": 4, "undecodable": 1},
        clients=5,
        connections=9,
        latency=[
            LatencyRow("ShareFetch", "v1-v2", 812, 410_000, 502_000, 505_100, 509_320),
            LatencyRow("Produce", "v13", 260, 850, 4_300, 12_900, 48_210),
            LatencyRow("ShareAcknowledge", "v2", 204, 620, 2_010, 5_400, 5_410),
            LatencyRow("CreateTopics", "v7", 2, 18_000, 21_000, 21_000, 21_000),
            LatencyRow("Metadata", "v12-v13", 88, 310, 900, 1_750, 2_400),
            LatencyRow("ApiVersions", "v0-v4", 12, 95, 400, 410, 410),
        ],
        traffic=Timeline(START_US, 1_000_000, 48, traffic),
        errors=Timeline(
            START_US,
            1_000_000,
            48,
            {
                "INVALID_RECORD_STATE": [int(20 < index < 29) * chance.randrange(4) for index in range(48)],
                "SHARE_SESSION_NOT_FOUND": [int(index == 31) * 2 for index in range(48)],
            },
        ),
        error_rows=[
            ErrorRow("ShareAcknowledge", "INVALID_RECORD_STATE", 14, START_US + 21_000_000, START_US + 28_000_000),
            ErrorRow("ShareFetch", "SHARE_SESSION_NOT_FOUND", 2, START_US + 31_000_000, START_US + 31_200_000),
        ],
        error_responses=16,
        share_traffic=Timeline(START_US, 1_000_000, 48, {"first time": [38] * 48, "again": [0] * 40 + [15] * 8}),
        groups=[GroupRow(name, 1_950, 1_840, 74, 4)],
        deliveries=[
            DeliveryRow(name, name, 0, 1_310, 1_200, 74, 4),
            DeliveryRow(name, f"{name}-eu", 1, 640, 640, 0, 1),
        ],
        delivery_counts={name: {1: 1_840, 2: 74, 3: 24, 4: 12}},
        outcomes={name: {"accepted": 1_790, "rejected": 26, "exhausted": 5, "released": 9, "open": 10}},
        acks=[
            AckRow(name, "q2Jm0sXlR8aYx1Yw0rA1Bg", f"{name}-1", {"accept": 900, "release": 31}, 0),
            AckRow(name, "7vYbqUQpQkGJmF2rLr3kHA", f"{name}-2", {"accept": 700, "reject": 26, "renew": 12}, 0),
            AckRow(name, "b4WcJk0hTz2sT7rKc1k9dw", f"{name}-3", {"accept": 190, "gap": 3}, 14),
        ],
        refused_acks=14,
    )
