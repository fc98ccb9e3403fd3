"""Captures that continue each other: their readers, checkpoints between files, topic names found late.

`open_series` returns the reader of a level, which `series_reader` describes.
"""
