"""The fast lane: rows of clean flows straight from the index, without walking through the generators.

What comes out is what the generators give; tests hold both equal on every capture there is. It needs numpy and pyarrow.
"""
