"""The public Python API: a job in Python says what a job file says, and either can be had from the other."""

from mixedmode.job.api import Job
from mixedmode.job.connectors import SideOutput, Sink, Source
from mixedmode.job.keyed import KeyedJob, WindowedJob

__all__ = ["Job", "KeyedJob", "SideOutput", "Sink", "Source", "WindowedJob"]
