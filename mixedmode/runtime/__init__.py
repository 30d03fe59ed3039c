"""Running a job on Spark: session, plan, exchange, subtasks and the epoch loop."""
