"""The map side stays within the memory that the job gives a task, however often keys repeat."""

import pytest

from mixedmode.operators.interface import OperatorAttributes
from mixedmode.tasks.memory import slice_bytes
from tests.tasks.worker import grown_bytes, needs_proc

SETTING = 256 * 2**20
CONSTANT = 48 * 2**20  # batches as they are read, blocks as they are sent
ROWS = 2 * slice_bytes(SETTING, OperatorAttributes()) // 16  # two slices of 16 bytes a row

SCRIPT = """
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa

from bench.micro.stages import count_and_sum, map_side
from mixedmode.tasks.memory import slice_bytes
from tests.tasks.worker import peak_bytes

kind, setting, rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
keys = {"a range": rows // 10, "few": 1000, "every key 5 times": rows // 10, "every key twice": rows // 4,
        "every value": 1000}
spread = 1 if kind == "a range" else 2**40 + 1


def batches(rows):
    rng = np.random.default_rng(1)
    for start in range(0, rows, 2**18):
        size = min(2**18, rows - start)
        numbers = rng.integers(0, keys.get(kind, 2**62), size)
        column = pa.array(numbers * spread if kind in keys else numbers)
        if kind == "texts":
            column = column.cast(pa.string())
        yield pa.record_batch([column, pa.array(rng.random(size))], names=["_k0", "_arg0"])


stage = count_and_sum("string" if kind == "texts" else "int64")
if kind == "every value":
    stage = replace(stage, operator=replace(stage.operator, emits_running_results=True))
side = map_side(stage, parallelism=2, slice_bytes=slice_bytes(setting, stage.operator.attributes))
for _ in side(batches(1000)):
    pass
before = peak_bytes()
shipped = sum(block.nbytes for block in side(batches(rows)))
assert shipped, "it ships something"
print(peak_bytes() - before)
"""


@needs_proc
@pytest.mark.parametrize(
    "kind",
    [
        "every key twice",
        *(
            pytest.param(kind, marks=pytest.mark.soak)
            for kind in ("distinct", "texts", "every value", "a range", "few", "every key 5 times")
        ),
    ],
)
def test_folding_stays_within_the_setting(kind: str) -> None:
    grown = grown_bytes(SCRIPT, kind, SETTING, ROWS)
    assert grown <= SETTING + CONSTANT, f"{grown / SETTING:.2f} times the setting"
