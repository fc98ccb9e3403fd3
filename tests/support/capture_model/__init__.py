"""The model of the capture reader: packets to rows, object by object, without options for speed.

Tests compare the engine, which reads by columns, with it. `pipeline` has its entry points.
"""
