"""Benchmarks: each module (`python -m tools.bench.records`) writes its section of docs/performance.md."""
