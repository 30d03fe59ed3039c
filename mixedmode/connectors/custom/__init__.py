"""Classes of a user as sources and sinks. This file imports nothing, because processes of Spark import it."""
