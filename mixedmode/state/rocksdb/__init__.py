"""Keyed state in RocksDB: a writer of sorted runs (SST files), and a local replica that reads committed runs."""

from mixedmode.state.rocksdb.backend import RocksDBBackend
from mixedmode.state.rocksdb.replica import Replica, open_replica
from mixedmode.state.rocksdb.writer import LocalRun, RunWriter

__all__ = ["LocalRun", "Replica", "RocksDBBackend", "RunWriter", "open_replica"]
