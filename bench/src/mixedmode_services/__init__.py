"""Servers on this machine for trying things out and for tests: Kafka from Maven's jars, PostgreSQL from its package.

No job needs this package. It finds jars, and starts, waits for and stops servers (`server.py`, `kafka.py`,
`postgres.py`). `mixedmode services` starts both for interactive use.
"""
