"""Keys: their canonical bytes, their hash, their key group, and the grouping of rows by key. Pure."""

from mixedmode.keys.encode import KeySchema, decode_keys, encode_keys, key_pieces, key_widths
from mixedmode.keys.grouping import Groups, distinct_max, distinct_part, group_codes, paired_groups
from mixedmode.keys.groups import MAX_PARALLELISM_LIMIT, KeyGroupRange, group_range
from mixedmode.keys.hash import key_groups, xxhash64
from mixedmode.keys.sample import SAMPLED_KEYS, sampled_rows
from mixedmode.keys.slots import Slots, slots_of
from mixedmode.keys.values import to_ordered

__all__ = [
    "MAX_PARALLELISM_LIMIT",
    "SAMPLED_KEYS",
    "Groups",
    "KeyGroupRange",
    "KeySchema",
    "Slots",
    "decode_keys",
    "distinct_max",
    "distinct_part",
    "encode_keys",
    "group_codes",
    "group_range",
    "key_groups",
    "key_pieces",
    "key_widths",
    "paired_groups",
    "sampled_rows",
    "slots_of",
    "to_ordered",
    "xxhash64",
]
