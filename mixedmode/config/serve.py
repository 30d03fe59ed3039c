"""The settings of the HTTP server beside a run."""

import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from mixedmode.config.document import Path
from mixedmode.config.fields import Section, Text

__all__ = ["ServeSpec"]

_ADDRESS = re.compile(r"(?:.*:)?([0-9]{1,5})")
_PORT_MAX = 65_535


def _text_of_port(value: Any) -> Any:
    """Return a port as text: YAML reads a bare one as a number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class ServeSpec(Section):
    """The server of a run. The tokens come from the environment, and never from the file."""

    listen: Annotated[Text, BeforeValidator(_text_of_port)] = Field(
        description="[HOST:]PORT where the server listens; 127.0.0.1 by default, any other host needs a token and TLS"
    )
    cert: Text | None = Field(default=None, description="file with the certificate chain for TLS, as PEM")
    key: Text | None = Field(default=None, description="file with the key of the certificate, as PEM")
    savepoints: Text | None = Field(
        default=None, description="folder or URL where the server puts savepoints; not given: it takes none"
    )

    def _findings(self) -> Iterator[tuple[Path, str]]:
        found = _ADDRESS.fullmatch(self.listen)
        if found is None or int(found[1]) > _PORT_MAX:
            text = f" is not an address. Write a port, or a host and a port, such as 8080. found={self.listen}"
            yield ("listen",), text
        if (self.cert is None) != (self.key is None):
            text = " is missing: TLS needs a certificate and its key. Add it, or remove the other one."
            yield ("key" if self.key is None else "cert",), text
