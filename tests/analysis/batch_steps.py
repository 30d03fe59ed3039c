"""The steps that a sql step means, computed by Spark's batch, one after the other."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mixedmode.analysis.grouped_sql import GroupedSql
from mixedmode.analysis.relations import Relation, Roots
from mixedmode.analysis.sql_steps import SqlReads
from mixedmode.analysis.sql_texts import SqlTexts
from mixedmode.config import JoinStep, KeyedAggregateStep, SqlStep, TopStep
from mixedmode.errors import MixedmodeError
from mixedmode.operators.interface import Changelog
from mixedmode.plan.stages import EmittedRows
from mixedmode.spark.frames import relations_of, stand_in_of
from mixedmode.spark.temporary_views import views

_JOINS = {"inner": "INNER", "left": "LEFT", "right": "RIGHT", "full": "FULL", "semi": "LEFT SEMI", "anti": "LEFT ANTI"}


class BatchSteps:
    """Computes texts over tables.

    tables: {name: its rows} of sources. dimensions: the same of those. steps: {name: step} of those of the texts so
    far.
    """

    def __init__(
        self, spark: SparkSession, tables: Mapping[str, DataFrame], dimensions: Mapping[str, DataFrame] | None = None
    ) -> None:
        self._spark = spark
        self._tables = dict(tables)
        self._dimensions = dict(dimensions or {})
        self._roots = Roots([*tables], dict.fromkeys(tables, "at"))
        self._sources = {
            name: Relation(name, stand_in_of(spark, frame.schema), sources=(name,)) for name, frame in tables.items()
        }
        self.steps: dict[str, Any] = {}

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return what the steps of a text make of the tables."""
        return [tuple(row) for row in self.frame(sql).collect()]

    def frame(self, sql: str) -> DataFrame:
        """Return the same as a frame, which is not yet computed."""
        found: list[MixedmodeError] = []
        texts = SqlTexts(self._spark, self._roots, self._grouped, self._joined, "steps[0].sql", found)
        rows, _ = texts.rows(SqlStep(sql=sql), SqlReads(self._sources, self._dimensions), "sql-1")
        assert not found, found
        return self._computed(rows)

    def _grouped(self, grouped: GroupedSql, given: Relation) -> Relation:
        step, name = grouped.step, grouped.step.name
        assert name is not None
        keys = [f"`{key}`" for key in step.key_by]
        calls = []
        if isinstance(step, KeyedAggregateStep):
            assert step.window is None
            calls = [f"{call} AS `{name}`" for name, call in step.aggregate.items()]
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        sql = f"SELECT {', '.join([*keys, *calls])} FROM given{group}"
        if isinstance(step, TopStep):
            order = [
                f"{by.expression} {'DESC' if by.descending else 'ASC'} NULLS {'FIRST' if by.nulls_first else 'LAST'}"
                for by in step.top.order_by
            ]
            partition = f"PARTITION BY {', '.join(keys)} " if keys else ""
            rank = f"row_number() OVER ({partition}ORDER BY {', '.join(order)})"
            sql = f"SELECT * FROM (SELECT {rank} AS rank, * FROM given) WHERE rank <= {step.top.n}"
        return self._step(name, step, sql, {"given": given})

    def _joined(self, step: JoinStep, given: tuple[Relation, Relation]) -> Relation:
        join, (left, right) = step.join, given
        assert step.name is not None
        conditions = [*join.on, *([f"({join.condition})"] if join.condition else [])]
        if join.within is not None:
            times = [self._roots.upstream_of([one], 0).event_time for one in given]
            distance = "unix_micros(right.`{1}`) - unix_micros(left.`{0}`)".format(*times)
            conditions.append(f"{distance} BETWEEN {1000 * join.within[0]} AND {1000 * join.within[1]}")
        on = " AND ".join(conditions)
        sql = f"SELECT {', '.join(join.select)} FROM left {_JOINS[join.type]} JOIN right ON {on}"
        return self._step(step.name, step, sql, {"left": left, "right": right})

    def _step(self, name: str, step: Any, sql: str, given: Mapping[str, Relation]) -> Relation:
        self.steps[name] = step
        with views(self._spark, {view: self._computed(one) for view, one in given.items()}):
            self._tables[name] = self._spark.sql(sql)
        only_adds = isinstance(step, JoinStep) and step.join.type in {"inner", "semi"}
        only_adds = only_adds and not self._roots.reads([*given.values()]).changelogs
        self._roots.emitted[name] = EmittedRows(
            Changelog.APPEND if only_adds else Changelog.RETRACT,
            step.join.event_time if isinstance(step, JoinStep) else None,
        )
        self._roots.upstream[name] = frozenset(self._sources)
        frame = stand_in_of(self._spark, self._tables[name].schema)
        return Relation(name, frame, stages=(name,), root=frame)

    def _computed(self, relation: Relation) -> DataFrame:
        return relations_of(self._spark, self._tables, self._roots.reads([relation]), self._dimensions)[0]
