"""Keyed state: the interface through which operators read and write it, and its backends."""

from mixedmode.state.backend import KeyedStateBackend, PrefixRows, StateRange
from mixedmode.state.codec import RowCodec
from mixedmode.state.descriptor import StateDescriptor
from mixedmode.state.memory import MemoryBackend
from mixedmode.state.profiled import ProfiledBackend
from mixedmode.state.single_key import SingleKeyBackend
from mixedmode.state.table import StateTable

__all__ = [
    "KeyedStateBackend",
    "MemoryBackend",
    "PrefixRows",
    "ProfiledBackend",
    "RowCodec",
    "SingleKeyBackend",
    "StateDescriptor",
    "StateRange",
    "StateTable",
]
