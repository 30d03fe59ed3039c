"""The common parts of sinks that keep a table in a database up to date, in one transaction for each epoch."""
