"""Reads transformWithState in the plan of a streaming DataFrame as a process step.

The node has the pickled object of the class, as Spark sends it to its workers. A job names a class that tasks import,
so the object has to be one that its class makes without arguments.
"""

from dataclasses import dataclass
from typing import Any

from pyspark.serializers import CloudPickleSerializer

from mixedmode.analysis.catalyst_objects import id_of, items_of, kind_of
from mixedmode.analysis.stream_source import refuse
from mixedmode.analysis.written_sql import own_name
from mixedmode.config import ProcessStep
from mixedmode.operators.classes import class_reference

__all__ = ["TRANSFORMS", "StreamProcessor"]

_Java = Any  # an object of the JVM

_ROWS, _FRAMES = "TransformWithStateInPySpark", "TransformWithStateInPandas"
#: kinds of the nodes of transformWithState and transformWithStateInPandas
TRANSFORMS = frozenset({_ROWS, _FRAMES})
_WRITE_STEP = "Write the job as steps: Job(name, sources={...}).key_by(...).process(Class, output=..., time_mode=...)"


@dataclass(frozen=True, slots=True)
class StreamProcessor:
    """A node of transformWithState.

    rows: the plan whose rows the class gets. keys: its columns that are the key. settings: those of the step without
    the key.
    """

    rows: _Java
    keys: tuple[_Java, ...]
    settings: dict[str, Any]

    @classmethod
    def of(cls, node: _Java) -> "StreamProcessor":
        """Return a node as a step. Raise InvalidJobError for one that a job does not have."""
        if bool(node.hasInitialState()):
            refuse("an initial state", "Put the initial rows before the input as records.")
        rows, keys = _rows_and_keys(node)
        processor, time_mode = _processor(node)
        return cls(
            rows,
            keys,
            {
                **_class_of(processor),
                "output": str(node.schema().asNullable().toDDL()),
                "time-mode": time_mode,
                "rows-as": "pandas" if "pandas" in str(node.userFacingDataType().toString()).lower() else "row",
            },
        )

    def step(self) -> ProcessStep:
        """Return the step. Its keys have the names that they have in the rows."""
        names = [str(key.name()) for key in self.keys]
        for name in names:
            if own_name(name, set()) != name:
                refuse(f"a key of the name {name!r}", "Rename the column before groupBy, to letters, digits and _.")
        return ProcessStep.model_validate({"key-by": names, **self.settings})


def _rows_and_keys(node: _Java) -> tuple[_Java, tuple[_Java, ...]]:
    """Return the plan below a node, and the key. Spark puts the key before the columns of the rows."""
    project, count = node.child(), int(node.groupingAttributesLen())
    items = list(items_of(project.projectList())) if kind_of(project) == "Project" else []
    rows = project.child() if items else project
    ids = [id_of(column) for column in items_of(rows.output())]
    if [id_of(one) for one in items[count:]] != ids or any(id_of(one) not in ids for one in items[:count]):
        refuse("a key that groupBy computes", "Compute the column with withColumn, and group by its name.")
    return rows, tuple(one.toAttribute() for one in items[:count])


def _processor(node: _Java) -> tuple[Any, str]:
    """Return the object of a node, and its time mode in the spelling of a job."""
    signed = str(node.functionExpr().func().command().mkString(",")).split(",")
    pickler: Any = CloudPickleSerializer
    function, _ = pickler().loads(bytes(int(one) % 256 for one in signed))
    call: Any = getattr(function, "__self__", None)
    processor = getattr(call, "_stateful_processor", None)
    if processor is None:
        refuse("a function of Python that has no StatefulProcessor", f"{_WRITE_STEP}.")
    modes = {"none": "None", "eventtime": "EventTime", "processingtime": "ProcessingTime"}
    return processor, modes[str(call._time_mode).lower()]  # noqa: SLF001 - Spark has no public name for it


def _class_of(processor: Any) -> dict[str, Any]:
    """Return the settings of a step that name the class. Refuse an object that the class alone does not make."""
    found = type(processor)
    reference, folder = class_reference(found, place="Job.from_stream")
    try:
        is_plain = vars(found()) == vars(processor)
    except Exception:  # noqa: BLE001 - whatever the class raises without its arguments
        is_plain = False
    if not is_plain:
        refuse(
            f"an object of {reference} with values of its own",
            f"A job makes the object itself, from the class and its arguments. {_WRITE_STEP}, with `args`.",
        )
    return {"process": reference, **({} if folder is None else {"folder": str(folder)})}
