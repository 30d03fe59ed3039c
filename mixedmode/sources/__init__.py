"""Sources: Spark reads the data; this package adds the settings that keep records from being lost or turned
into NULL.
"""

from mixedmode.sources.open import open_source
from mixedmode.sources.source import Admission, OpenSource, parse_ddl

__all__ = ["Admission", "OpenSource", "open_source", "parse_ddl"]
