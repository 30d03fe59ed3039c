"""Sources: Spark does the reading; this adds the settings under which no record is lost or turned into NULL unseen."""

from mixedmode.sources.open import open_source
from mixedmode.sources.source import Admission, OpenSource, parse_ddl

__all__ = ["Admission", "OpenSource", "open_source", "parse_ddl"]
