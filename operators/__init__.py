"""Stateful operators: what a step does with the records and the state of one key, in any mode.

An operator sees sorted, keyed Arrow tables and a state backend. It knows neither Spark nor RocksDB, and cannot tell
the backlog from live data by the way its state is stored.
"""
