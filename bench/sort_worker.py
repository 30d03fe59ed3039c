"""A worker that sorts ten times its memory: `python -m bench.sort_worker BUDGET_BYTES SPILL_DIR`.

It does what a subtask does with an operator that needs every record: sorted blocks of some megabytes arrive, as the
exchange cuts them, and the sorter gives them back in order, no key split over two tables. All keys are different, so
nothing shrinks. Prints one JSON object. It runs alone in its process, so that the peak is its own.
"""

import json
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from mixedmode.keys import KeySchema, encode_keys, key_groups
from mixedmode.sort import KEY, KEY_GROUP, ExternalSorter, sort_table

TIMES_BUDGET = 10
ROWS_PER_BLOCK = 300_000  # about 8 MiB
MAX_PARALLELISM = 128

_SCHEMA = KeySchema((pa.field("k", pa.int64()),))


def main(budget_bytes: int, spill_dir: Path) -> None:
    """Sort, and print what it took."""
    pa.set_cpu_count(1)  # as in a Python worker of Spark, which shares the machine with its siblings
    started = time.perf_counter()
    bytes_in = rows_in = rows_out = 0
    with ExternalSorter(budget_bytes=budget_bytes, spill_dir=spill_dir, undivided="key") as sorter:
        for block in _blocks(TIMES_BUDGET * budget_bytes):
            bytes_in, rows_in = bytes_in + block.nbytes, rows_in + block.num_rows
            sorter.add_sorted(block)
        for table in sorter.sorted_tables():
            rows_out += table.num_rows
        stats = sorter.stats
    assert rows_out == rows_in, (rows_out, rows_in)
    print(
        json.dumps(
            {
                "bytes_in": bytes_in,
                "rows": rows_out,
                "spilled_runs": stats.spilled_runs,
                "peak_bytes": peak_bytes(),
                "seconds": time.perf_counter() - started,
            }
        )
    )


def peak_bytes() -> int:
    """The most memory that this process ever had resident."""
    status = Path("/proc/self/status")
    if status.exists():  # Linux counts what the parent had before this program was loaded in getrusage's figure, too
        return int(status.read_text().split("VmHWM:")[1].split()[0]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _blocks(total_bytes: int) -> Iterator[pa.Table]:
    rng, done = np.random.default_rng(4), 0
    while done < total_bytes:
        keys = encode_keys([pa.array(rng.integers(0, 2**62, ROWS_PER_BLOCK))], _SCHEMA)
        columns = {
            KEY_GROUP: pa.array(key_groups(keys, max_parallelism=MAX_PARALLELISM)),
            KEY: keys,
            "n": pa.array(np.ones(ROWS_PER_BLOCK, np.int64)),
            "v": pa.array(rng.random(ROWS_PER_BLOCK)),
        }
        block = sort_table(pa.table(columns))
        done += block.nbytes
        yield block


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
