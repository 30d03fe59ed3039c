"""Sources: Spark reads the data; this package adds the settings that keep records from being lost or turned
into NULL.

This file imports nothing, because Spark starts a process that imports connectors/custom/stream.py alone for each query.
"""
