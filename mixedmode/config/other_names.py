"""The names that Flink, Spark and SQL have for settings of a job, for messages about unknown keys.

A name that only misspells a setting is not here: spelling.py finds it.
"""

from collections.abc import Mapping

__all__ = ["OTHER_NAMES", "plain_key"]

#: {another program's name, as plain_key returns it: our keys; a dotted key may be meant from anywhere in a job}
OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    "groupby": ("key-by",),
    "partitionby": ("key-by",),
    "keys": ("key-by", "on", "key"),
    "using": ("on",),
    "where": ("condition", "steps[].sql"),
    "filter": ("condition", "steps[].sql"),
    "hop": ("sliding",),
    "hopping": ("sliding",),
    "tumble": ("tumbling",),
    "cumulate": ("cumulating",),
    "proctime": ("time",),
    "lateness": ("allowed-lateness",),
    "statefulprocessor": ("process",),
    "outputstructtype": ("output",),
    "eventtimecolumnname": ("event-time",),
    "delay": ("out-of-orderness",),
    "delaythreshold": ("out-of-orderness",),
    "boundedoutoforderness": ("out-of-orderness",),
    "idleness": ("idle-timeout",),
    "rowtime": ("event-time",),
    "timecolumn": ("event-time",),
    "timestampcolumn": ("event-time",),
    "columns": ("schema", "output"),
    "subscribe": ("topics",),
    "subscribepattern": ("topic-pattern",),
    "startingoffsets": ("starting",),
    "startupmode": ("starting",),
    "scan": ("starting",),
    "failondataloss": ("allow-data-loss",),
    "maxoffsetspertrigger": ("max-records-per-epoch",),
    "maxfilespertrigger": ("max-files-per-epoch",),
    "maxbytespertrigger": ("max-bytes-per-epoch",),
    "trigger": ("execution.checkpointing.interval",),
    "processingtime": ("execution.checkpointing.interval",),
    "checkpointlocation": ("execution.checkpointing.dir",),
    "checkpointdir": ("execution.checkpointing.dir",),
    "checkpoints": ("execution.checkpointing.dir",),
    "mode": ("runtime-mode",),
}


def plain_key(key: str) -> str:
    """Return a key without what programs write differently: `maxFilesPerTrigger` is `maxfilespertrigger`."""
    return key.lower().replace("_", "").replace("-", "")
