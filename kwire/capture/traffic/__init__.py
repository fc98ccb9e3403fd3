"""The levels `flows` and `packets` by columns: all TCP connections and their packets, Kafka or not.

`tcp_columns` analyses the packets of a span; `flow_batches` and `packet_batches` make rows of the results. They get
spans one after another, from an index (`indexed_traffic`, where reading begins) or while a capture is read. What other
stages find out about a connection, as its client, is a `FlowFacts` (`flow_facts`). It uses the packages `index` and
`rows`, and no payload.
"""
