"""Stateful operators: they process the records and the state of each key, in any execution mode.

An operator sees sorted, keyed Arrow tables and a state backend. It knows neither Spark nor RocksDB. It
cannot tell from its state whether it runs in the backlog or live.
"""
