"""Folders of files in Parquet, JSON and CSV, as sources and sinks."""
