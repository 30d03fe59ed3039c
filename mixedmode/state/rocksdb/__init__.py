"""Keyed state in RocksDB: sorted runs written as SST files, and a local replica that reads the committed ones."""

from mixedmode.state.rocksdb.backend import RocksDBBackend
from mixedmode.state.rocksdb.replica import Replica, open_replica
from mixedmode.state.rocksdb.writer import LocalRun, RunWriter

__all__ = ["LocalRun", "Replica", "RocksDBBackend", "RunWriter", "open_replica"]
