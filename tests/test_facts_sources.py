"""Sources and what rests on them: addresses lead to a page, dates agree, and a chip's counts multiply to its printed
peaks."""

import re
from urllib.parse import urlsplit

import pytest

from course_lib.estimate import facts
from course_lib.estimate.facts.fact import rows
from tests.tables import each_of

FILES = (
    "devices.csv", "runs.csv", "prices.csv", "claims.csv", "chips.csv", "topologies.csv", "ceilings.csv",
    "failure_logs.csv", "gpus.csv", "launches.csv",
)  # fmt: skip
KIB, MIB = 2**10, 2**20


# --- addresses and dates ---------------------------------------------------------------------------


def test_an_address_is_that_of_a_page_not_of_a_whole_site():
    for key, one in facts.references().items():
        if one.url:
            assert urlsplit(one.url).path.strip("/"), (
                f"{key}: {one.url} is the front of a site; give the page that was read."
            )


def test_no_two_sources_are_the_same_page():
    addresses = [one.url for one in facts.references().values() if one.url]
    assert len(addresses) == len(set(addresses)) > 50


@each_of("file", ["sources.csv", "models.csv", "checkpoints.csv", "device_names.csv"])
def test_no_two_rows_have_one_name(file):
    names = [next(iter(row.values())) for row in rows(file)]
    assert len(names) == len(set(names))


def test_the_number_of_a_preprint_begins_with_its_year_and_month():
    found = [
        (key, re.search(r"arxiv\.org/abs/(\d\d)(\d\d)\.\d{5}$", one.url), one.date)
        for key, one in facts.references().items()
        if "arxiv.org" in one.url
    ]
    assert len(found) > 20
    for key, number, date in found:
        assert number and f"20{number[1]}-{number[2]}" == date, key


@each_of("file", FILES)
def test_a_value_is_as_old_as_its_source(file):
    for row in rows(file):
        assert row["date"] == facts.reference(row["source"]).date, row


def test_every_number_that_a_source_supports_names_a_known_source():
    assert {row["source"] for row in rows("supports.csv")} <= set(facts.references())


# --- the inside of a chip --------------------------------------------------------------------------

PRINTED = [  # (device, dense 16-bit and FP32 TFLOP/s as tables print them)
    ("V100 SXM2 32GB", "125", "15.7"),
    ("A100 SXM 80GB", "312", "19.5"),
    ("H100 SXM", "989.4", "66.9"),
]


def as_printed(value: float, like: str) -> str:
    """A value with as many decimals as the printed number has."""
    return f"{value:.{len(like.partition('.')[2])}f}"


@each_of("name, tensor, fp32", PRINTED)
def test_units_times_operations_times_clock_give_the_printed_peaks_to_the_last_digit(name, tensor, fp32):
    chip = facts.chip(name)
    assert as_printed(chip.tensor_flops / 1e12, tensor) == tensor
    assert as_printed(chip.fp32_flops / 1e12, fp32) == fp32
    assert facts.device(name).dense_flops / 1e12 == int(float(tensor))


def test_an_sm_does_1024_2048_and_4096_operations_a_clock():
    rates = [facts.chip(name).tensor_cores_per_sm * facts.chip(name).tensor_flop_per_clock for name, *_ in PRINTED]
    assert rates == [1024, 2048, 4096]


def test_the_tensor_clock_of_an_h100_follows_from_its_rate_and_its_counts():
    chip = facts.chip("H100 SXM")
    counted = chip.sms * chip.tensor_cores_per_sm * chip.tensor_flop_per_clock
    assert round(989.4e12 / counted / 1e9, 2) * 1e9 == pytest.approx(chip.tensor_hertz)
    assert chip.tensor_hertz < chip.core_hertz


@each_of("name", facts.chips())
def test_registers_are_65536_words_of_four_bytes_and_more_than_the_shared_memory(name):
    chip = facts.chip(name)
    assert chip.registers == 65_536 * 4 > chip.shared_memory
    assert chip.shared_memory % KIB == 0 and chip.l2 % MIB == 0
    assert chip.l2 < chip.sms * chip.registers + chip.sms * chip.shared_memory, (
        "an L2 is smaller than all SMs hold together"
    )


def test_on_chip_memories_grow_from_one_generation_to_the_next():
    chips = [facts.chip(name) for name, *_ in PRINTED]
    assert [chip.shared_memory / KIB for chip in chips] == [96, 164, 228]
    assert [chip.l2 / MIB for chip in chips] == [6, 40, 50]
