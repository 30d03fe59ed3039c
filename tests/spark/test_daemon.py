"""The daemon of the Python workers decides on AVX-512 for all of them."""

import pytest

from mixedmode.spark.daemon import compresses_slowly

CPU = """\
processor\t: {number}
vendor_id\t: {vendor}
cpu family\t: {family}
model name\t: any
flags\t\t: fpu avx2 {flags} sse
power management:
"""


def cpu_info(vendor: str, family: int, flags: str) -> str:
    return "\n".join(CPU.format(number=number, vendor=vendor, family=family, flags=flags) for number in range(2))


@pytest.mark.parametrize(
    ("info", "is_slow"),
    [
        (cpu_info("AuthenticAMD", 25, "avx512f avx512vl"), True),  # Zen 4
        (cpu_info("AuthenticAMD", 25, ""), False),  # Zen 3
        (cpu_info("AuthenticAMD", 26, "avx512f"), False),  # Zen 5
        (cpu_info("GenuineIntel", 25, "avx512f"), False),
        ("processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd\n", False),  # Arm
        ("", False),
    ],
    ids=["Zen 4", "Zen 3", "Zen 5", "Intel", "Arm", "nothing"],
)
def test_only_zen_4_is_known_to_sort_slowly_with_avx512(info: str, is_slow: bool) -> None:
    assert compresses_slowly(info) is is_slow
