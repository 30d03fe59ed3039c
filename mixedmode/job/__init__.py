"""The public Python API: a job in Python says what a job file says, and either can be had from the other."""

from mixedmode.job.api import Job, KeyedJob
from mixedmode.job.connectors import Sink, Source

__all__ = ["Job", "KeyedJob", "Sink", "Source"]
