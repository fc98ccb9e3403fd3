"""From a packet capture to rows: every Kafka request with its response, latency, errors, and what was lost.

The rooms follow the way of a capture: file bytes -> `Packet` (`pcap`, `pcapng`) -> `Segment` (`links`, `ip`)
-> `Data | Gap` (`reassembly`) -> `Frame` (`framing`) -> `Exchange` (`exchange`) -> row (`rows`) -> Arrow (`arrow`).
"""
