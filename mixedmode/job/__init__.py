"""The public Python API. A job in Python and a job file say the same, and each can be converted to the other."""

from mixedmode.job.api import Job
from mixedmode.job.broadcasts import Broadcast
from mixedmode.job.connectors import Sink, Source, side_output
from mixedmode.job.keyed import KeyedJob, WindowedJob
from mixedmode.job.results import JobResult
from mixedmode.job.streams import Stream
from mixedmode.job.tables import read_table

__all__ = [
    "Broadcast",
    "Job",
    "JobResult",
    "KeyedJob",
    "Sink",
    "Source",
    "Stream",
    "WindowedJob",
    "read_table",
    "side_output",
]
