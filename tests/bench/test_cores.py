"""The growth of the work with the number of subtasks is measured of whole runs, without Spark."""

from pathlib import Path

from mixedmode_bench.cores import SUBTASKS, growth_table, measure_cores, verdict
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
    assert verdict(growths).startswith("processor time per record, last to first: ")


def test_the_exchange_has_the_records_where_map_tasks_hardly_see_a_key_twice(tmp_path: Path) -> None:
    size = Size(40_000, 20_000)
    growths = measure_cores(size, tmp_path, 1, lambda _text: None)
    assert growths[0].shuffled_rows < size.events == growths[-1].shuffled_rows
