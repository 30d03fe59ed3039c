"""Text cut out of a pool: the very characters, whatever Arrow does with short and long strings."""

import numpy as np
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from mixedmode_bench.nexmark import texts
from mixedmode_bench.nexmark.draws import draw

CUTS = st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 1000)))
SHORT_CUTS = st.lists(st.tuples(st.integers(0, 2**20), st.integers(10, 14)))


@given(CUTS | SHORT_CUTS)
def test_a_cut_is_the_slice_of_the_pool(cuts: list[tuple[int, int]]) -> None:
    starts, lengths = (np.array([cut[i] for cut in cuts], np.int64) for i in (0, 1))
    found = texts.cut_at(texts.words(), starts, lengths)
    found.validate(full=True)
    pool = texts.words().tobytes().decode()
    assert found.to_pylist() == [pool[start : start + length] for start, length in cuts]


def test_strings_have_the_lengths_that_were_asked_for_equally_often() -> None:
    bits = draw(np.arange(30_000), 0, seed=1)
    counted = np.bincount(pc.binary_length(texts.cut(texts.letters(), bits, 3, 3)).to_numpy())
    assert counted[:3].sum() == 0
    assert len(counted) == 6
    assert abs(counted[3:] - 10_000).max() < 500


def test_letters_are_a_to_z_and_one_character_of_thirteen_in_words_is_a_blank() -> None:
    counted = np.bincount(texts.letters(), minlength=256) / len(texts.letters())
    assert abs(counted[ord("a") : ord("z") + 1] - 1 / 26).max() < 0.001
    assert counted.sum() == counted[ord("a") : ord("z") + 1].sum()
    assert abs((texts.words() == ord(" ")).mean() - 1 / 13) < 0.001


def test_every_channel_has_one_address_and_nine_of_ten_but_the_hot_ones_end_in_an_id() -> None:
    names, urls = texts.channels().to_pylist(), texts.urls().to_pylist()
    assert len(names) == len(urls) == len(set(names)) == 10_004
    assert tuple(names[:4]) == texts.HOT_CHANNELS
    assert not any("channel_id" in url for url in urls[:4])
    assert abs(np.mean(["channel_id" in url for url in urls[4:]]) - 0.9) < 0.02
    assert pc.all(pc.match_substring_regex(texts.urls(), r"^https://www\.nexmark\.com/(\w{3,4}/){3}item\.htm\?query=1"))


def test_the_id_of_a_channel_is_its_number_with_the_bits_reversed() -> None:
    ids = {
        name: int(url.partition("channel_id=")[2])
        for name, url in zip(texts.channels().to_pylist(), texts.urls().to_pylist(), strict=True)
        if "channel_id" in url
    }
    # the first bit becomes the sign, which is dropped: so odd numbers give -2^31 and more
    known = {"channel-2": 2**30, "channel-3": 2**30, "channel-4": 2**29, "channel-5": 2**31 - 2**29}
    assert {name: ids[name] for name in known if name in ids} == {name: known[name] for name in known if name in ids}
    assert len(known.keys() & ids.keys()) >= 3
