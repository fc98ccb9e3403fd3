"""Benchmarks: each module runs alone (`python -m tools.bench.records`) and writes its own section of the docs."""
