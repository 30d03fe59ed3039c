"""The plan of a job: pure values that tasks receive, and how `explain` shows them."""
