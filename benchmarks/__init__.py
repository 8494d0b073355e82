"""Measure workloads under several executors and write one tidy row per workload, executor and pass.

`python -m benchmarks --help` has examples. This package never reads rows to judge them: `reports`
does, and it never measures.
"""
