"""Conformance notes: what clients did wrong though the broker accepted it, found in a sequence of decoded exchanges.

`Checker` is a state machine without input or output. The broker's journal and captures feed it the same values.
"""
