"""Servers for trying things out and for tests, on this machine: Kafka from Maven's jars, PostgreSQL from its package.

No job needs this package. It gets jars (`artifacts.py`), and starts, waits for and stops servers (`server.py`,
`kafka.py`, `postgres.py`). `python -m mixedmode.services` starts both for a person.
"""
