"""The growth of the work with the number of subtasks is measured of whole runs, without Spark."""

from pathlib import Path

from mixedmode_bench.cores import SUBTASKS, growth_table, measure_cores, threads_text, verdicts
from mixedmode_bench.workload import Size

SIZE = Size(4_000, 50)


def test_the_exchange_has_at_most_a_row_for_each_key_of_each_map_task(tmp_path: Path) -> None:
    said: list[str] = []
    growths = measure_cores(SIZE, tmp_path, 1, said.append)
    assert [growth.subtasks for growth in growths] == list(SUBTASKS) == [int(text.split()[0]) for text in said]
    assert growths[0].shuffled_rows == SIZE.keys
    assert all(growth.shuffled_rows <= SIZE.keys * growth.subtasks for growth in growths)
    assert all(growth.shuffled_bytes > 0 and growth.serial_seconds <= growth.seconds for growth in growths)
    assert growth_table(growths, SIZE).row_count == len(SUBTASKS)
    assert growths[-1].shuffled_rows == SIZE.keys, "one map task combines the rows of all lanes"
    assert verdicts(growths, SIZE)[1] == "rows/key: 1.00, target at most 1.3: met"
    assert [bool(growth.elapsed_by_threads) for growth in growths] == [False, False, True, True, True]
    assert threads_text(growths[-1]).startswith("map task of 16 lanes, by number of threads: ")
