"""What a sql step may say, judged from the text of Spark's analysed plan. Nothing that a step says is run for it.

The one idea: on streaming stand-ins, Spark marks every node that reads the stream with a `~`, and gives every column
an id that it keeps for as long as the column stays what it was. So the plan tells a query from a command, a step that
needs more than one record at a time, and a column that was passed on from one that was computed.
"""

import contextlib
import io
import re
from collections.abc import Sequence

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from mixedmode.errors import InvalidJobError

_STATEFUL = re.compile(
    r"~(Aggregate|Distinct|Deduplicate\w*|Window|Sort|GlobalLimit|LocalLimit|Tail|Offset|Intersect|Except|Sample)\b"
)
_JOINING = re.compile(r"~Join|\bIN \(list#|\bexists#|\bscalar-subquery#")  # what may read a second stream
_UNREPEATABLE = re.compile(
    r"\b(rand|randn|random|uuid|shuffle|randstr|uniform|monotonically_increasing_id|spark_partition_id|now|reflect|"
    r"java_method|current_timestamp|current_date|localtimestamp|current_time|input_file_\w+)\(",
    re.IGNORECASE,
)
_ANALYSED, _OPTIMISED = "== Analyzed Logical Plan ==", "== Optimized Logical Plan =="
_VIEW = re.compile(r"\bView \(`((?:[^`]|``)+)`, ")
_COLUMN_ID = re.compile(r"#(\d+)")


def query_plan(session: SparkSession, sql: str, *, where: str) -> str:
    """The analysed plan of a step. Raises what Spark raises, and InvalidJobError unless it queries its input."""
    with contextlib.suppress(PySparkException):  # raised below, with the positions of the step's own text
        plan = _analysed(session.sql(f"EXPLAIN EXTENDED {sql}").collect()[0][0])
        if re.search(r"^~", plan, re.MULTILINE):
            return plan
        if "Exception: [" not in plan:
            msg = (
                f"{where}: a sql step is a SELECT over a source or over the step before it, and this one reads "
                "neither. Name one of them after FROM."
            )
            raise InvalidJobError(msg)
    return frame_plan(session.sql(sql))


def frame_plan(frame: DataFrame) -> str:
    """The analysed plan of a frame."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        frame.explain(mode="extended")
    return _analysed(text.getvalue())


def sources_in(plan: str) -> tuple[str, ...]:
    """The views that a plan reads, in the order in which Spark numbers them in its log."""
    return tuple(dict.fromkeys(name.replace("``", "`") for name in _VIEW.findall(plan)))


def check_stateless(plan: str, *, where: str) -> None:
    """Raises InvalidJobError for what takes more than one record at a time: it would see one epoch only."""
    found = _STATEFUL.search(plan)
    joins_streams = _JOINING.search(plan) is not None and plan.count("StreamingRelation") > 1
    if found is None and not joins_streams:
        return
    what = found.group(1).lower() if found else "join of two sources"
    msg = (
        f"{where}: a sql step sees one epoch at a time, so this would give another answer live than in batch. "
        f"Use key-by and aggregate for what goes over many records. found={what}"
    )
    raise InvalidJobError(msg)


def check_repeatable(plan: str, *, where: str) -> None:
    """Over the rows of a keyed step, sql runs again when a row is taken back, and must give the same row."""
    found = _UNREPEATABLE.search(plan)
    if found is not None:
        msg = (
            f"{where}: after a keyed step, sql must give the same row for the same input at any time, because a "
            "changed row is taken back by computing it again. Compute this before the first key-by. "
            f"found={found.group(1)}"
        )
        raise InvalidJobError(msg)


def check_one_value(plan: str, *, where: str) -> None:
    """Raises InvalidJobError if an argument gives not one value a record: the other aggregates would count it twice."""
    if "~Generate" in plan:
        msg = (
            f"{where}: an argument is one value of a record, and this gives several or none. Put it in a sql step "
            "before the key-by, and aggregate the column that it gives there."
        )
        raise InvalidJobError(msg)


def check_keys_kept(before: DataFrame, after: DataFrame, keys: Sequence[str], *, where: str) -> None:
    """Raises InvalidJobError unless `after` holds the key columns of `before` as they were.

    Computed ones could make one key of two, of which a later epoch sees only one. What a union does to its columns
    cannot be told.
    """
    changed = [key for key in keys if _column_id(before, key) != _column_id(after, key)]
    if "~Union" in frame_plan(after):
        changed = list(keys)
    if changed:
        msg = (
            f"{where}: the sql after the last key-by changes its key, so rows of several keys could end as one, and "
            "which one would depend on the epoch. Select the key columns as they are (no expression, no UNION), or put "
            f"a key-by after the sql. changed={', '.join(changed)}"
        )
        raise InvalidJobError(msg)


def _column_id(frame: DataFrame, name: str) -> str:
    quoted = "`" + name.replace("`", "``") + "`"
    for line in frame_plan(frame.select(quoted)).splitlines():
        if line.startswith("~"):
            return str(_COLUMN_ID.findall(line)[-1])
    raise AssertionError(name)


def _analysed(extended: str) -> str:
    return extended.partition(_OPTIMISED)[0].rpartition(_ANALYSED)[2]
