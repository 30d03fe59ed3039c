"""The numbers by which a task knows itself: its partition and its attempt.

Tasks take these numbers as an argument. Where Spark calls a task, the numbers come from Spark's TaskContext; the local
executor passes its own.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TaskNumbers:
    """The numbers of a task.

    `partition`: the 0-based number of the task in its stage. `attempt`: how often the task was tried before.
    `attempt_id`: differs between all attempts of all tasks.
    """

    partition: int
    attempt: int
    attempt_id: int


def numbers_from_spark() -> TaskNumbers:
    """Return the numbers of the Spark task that calls this function."""
    from pyspark import TaskContext  # noqa: PLC0415 - the only thing that a task asks Spark

    context = TaskContext.get()
    assert context is not None, "called outside of a Spark task"
    return TaskNumbers(context.partitionId(), context.attemptNumber(), context.taskAttemptId())
