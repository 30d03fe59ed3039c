"""Nexmark, the benchmark of an auction site: its events, made here, and those of its queries that a job can compute."""

from mixedmode_bench.nexmark.workloads import WORKLOADS

__all__ = ["WORKLOADS"]
