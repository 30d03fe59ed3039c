"""Code that runs in Spark's Python workers: the exchange, subtasks, their state and reports."""
