"""All RocksDB options. The databases compact runs to files with the same blocks as runs, and filters (sst_file.py)."""

from rocksdict import BlockBasedOptions, Cache, DBCompactionStyle, DBCompressionType, Options

BLOOM_BITS_PER_KEY = 10  # about 1 % false positives: a new key costs no block read
BLOCK_BYTES = 16 * 1024
COMPACTION_AFTER_RUNS = 8  # reads look into at most about this many overlapping runs


def run_options(cache_bytes: int = BLOCK_BYTES) -> Options:
    """Return the table format of runs, as options. RocksDB's own writer, which caches no blocks, takes them, too."""
    options = Options(raw_mode=True)
    table = BlockBasedOptions()
    table.set_bloom_filter(BLOOM_BITS_PER_KEY, block_based=False)
    table.set_block_size(BLOCK_BYTES)
    table.set_block_cache(Cache(cache_bytes))
    options.set_block_based_table_factory(table)
    options.set_compression_type(DBCompressionType.lz4())
    return options


def replica_options(cache_bytes: int = BLOCK_BYTES) -> Options:
    """Return the options for replicas: universal compaction merges small runs first.

    So each byte is rewritten O(log n) times. `cache_bytes` of uncompressed blocks are kept in memory; the page cache of
    the operating system may hold more.
    """
    options = run_options(cache_bytes)
    options.create_if_missing(True)
    options.set_compaction_style(DBCompactionStyle.universal())
    options.set_level_zero_file_num_compaction_trigger(COMPACTION_AFTER_RUNS)
    # Ingesting never waits for compaction: a replica that is behind is slow, not stuck.
    options.set_level_zero_slowdown_writes_trigger(10_000)
    options.set_level_zero_stop_writes_trigger(10_000)
    options.set_keep_log_file_num(2)
    # A replica is opened and closed in every epoch: no threads to open its few files, no statistics of them.
    options.set_max_file_opening_threads(1)
    options.set_skip_stats_update_on_db_open(True)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    return options


def merge_options() -> Options:
    """Return the options for databases in which runs are merged: all entries are read once, in order."""
    options = replica_options()
    options.set_disable_auto_compactions(True)
    return options
