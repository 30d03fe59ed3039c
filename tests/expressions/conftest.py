"""Views of these tests go with them: other tests look at all that a session has."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

_NAMES = ("ours", "other", "t", "x")


@pytest.fixture(autouse=True)
def no_view_stays(request: pytest.FixtureRequest) -> Iterator[None]:
    """Drop the views of a test on Spark."""
    yield
    if "spark" in request.fixturenames:
        session: SparkSession = request.getfixturevalue("spark")
        for name in _NAMES:
            session.catalog.dropTempView(name)
