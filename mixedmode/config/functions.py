"""The functions that a job adds to SQL."""

from typing import ClassVar

from pydantic import Field

from mixedmode.config.fields import FunctionReference, MainSetting, Text


class FunctionSpec(MainSetting):
    """A function of Python that SQL may call by its name in the job."""

    main: ClassVar[str] = "function"

    function: FunctionReference = Field(description="the function, such as package.module:function")
    folder: Text | None = Field(
        default=None, description="the folder that it is imported from; not given: the one of the job file"
    )
