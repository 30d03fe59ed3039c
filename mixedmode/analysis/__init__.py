"""From a job's settings and Spark's types to a plan."""
