"""Types of times, on the Spark of these tests."""

from tests.spark.local_times import check_local_times


def test_times_without_a_zone_stay_what_they_are() -> None:
    check_local_times()
