"""State of Spark Structured Streaming as state of this program's steps: pure conversions, and tasks that run them."""
