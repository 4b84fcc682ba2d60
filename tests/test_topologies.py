"""Topologies, chips and measured ceilings: what each holds, what it adds up to, and that every number has its
source."""

import dataclasses

import pytest

from course_lib.estimate import facts
from course_lib.estimate.facts.fact import Fact, rows
from tests.tables import each_of

FILES = ("topologies.csv", "chips.csv", "ceilings.csv")


@each_of("file", FILES)
def test_every_row_has_every_cell_and_a_known_source(file):
    for row in rows(file):
        assert None not in row.values() and all(cell.strip() for cell in row.values()), row
        facts.reference(row["source"])


@each_of(
    "file, keys",
    ("topologies.csv", ("topology", "level", "field")),
    ("chips.csv", ("device", "field")),
    ("ceilings.csv", ("device", "dtype", "field")),
)
def test_no_value_is_given_twice(file, keys):
    seen = [tuple(row[key] for key in keys) for row in rows(file)]
    assert len(seen) == len(set(seen))


def test_every_number_is_a_fact_with_unit_source_date_and_condition():
    records = [*facts.chips().values(), *facts.ceilings().values(), *facts.ceilings("fp8").values()]
    records += [level for one in facts.topologies().values() for level in one.levels]
    found = [getattr(record, field.name) for record in records for field in dataclasses.fields(record)]
    numbers = [value for value in found if isinstance(value, Fact)]
    assert len(numbers) > 70
    assert all(value > 0 and value.unit and value.source and value.date and value.condition for value in numbers)
    assert not [value for value in found if isinstance(value, float) and not isinstance(value, Fact)]


@each_of("level, devices", [("device", 1), ("server", 8), ("rack", 16), ("pod", 3072), ("cluster", 24_576)])
def test_the_llama_3_cluster_holds_what_its_paper_says(level, devices):
    assert facts.topology("Llama 3 cluster").devices(level) == devices


def test_only_the_aggregation_layer_is_oversubscribed():
    levels = {level.name: level for level in facts.topology("Llama 3 cluster").levels}
    assert levels["cluster"].oversubscription == 7
    assert all(level.oversubscription is None for name, level in levels.items() if name != "cluster")


@each_of("name", facts.topologies())
def test_levels_stand_on_the_one_inside_and_on_a_known_device(name):
    one = facts.topology(name)
    facts.device(one.device)
    assert one.levels[0].of == "" and one.levels[0].wire == "memory"
    assert [level.of for level in one.levels[1:]] == [level.name for level in one.levels[:-1]]
    assert all(level.holds == int(level.holds) for level in one.levels[1:])


def test_an_nvl72_rack_is_one_link_domain_of_72():
    rack = facts.topology("GB200 NVL72 rack")
    assert rack.devices("rack") == 72 and rack.levels[-1].wire == "link"


@each_of("name, adapters, gbit", [("DGX A100 server", 8, 200), ("DGX H100 server", 8, 400)])
def test_a_server_has_an_adapter_for_every_device(name, adapters, gbit):
    server = facts.topology(name).levels[1]
    assert server.adapters == server.holds == adapters
    assert facts.device(facts.topology(name).device).network_one_way == gbit * 1e9 / 8


def test_an_unknown_name_lists_those_near_it():
    with pytest.raises(ValueError, match="Llama 3 cluster"):
        facts.topology("Llama 3")
    with pytest.raises(ValueError, match="H100 SXM"):
        facts.chip("H100")
    with pytest.raises(ValueError, match="H100 SXM"):
        facts.ceiling("H100 SX")
    with pytest.raises(ValueError, match="server, rack"):
        facts.topology("Llama 3 cluster").devices("row")
    with pytest.raises(ValueError, match="bf16"):
        facts.ceiling("H100 SXM", "int4")


# --- chips and ceilings -----------------------------------------------------------------------------


@each_of("name", facts.chips())
def test_tensor_cores_times_clock_give_the_printed_dense_peak(name):
    assert facts.chip(name).tensor_flops == pytest.approx(facts.device(name).dense_flops, rel=5e-3)


def test_an_h100_has_132_processors_16896_cores_and_66_9_teraflops_of_fp32():
    chip = facts.chip("H100 SXM")
    assert (chip.sms, chip.sms * chip.cores_per_sm, chip.sms * chip.tensor_cores_per_sm) == (132, 16_896, 528)
    assert chip.fp32_flops / 1e12 == pytest.approx(66.9, abs=0.05)
    assert chip.tensor_flop_per_clock == 2 * 16 * 4 * 8


@each_of(
    "device, measured, peak",
    [("A100 SXM 80GB", 271.2, 312), ("H100 SXM", 794.5, 989), ("B200 SXM", 1745, 2250), ("MI300X", 668.4, 1307)],
)
def test_measured_ceilings_are_those_of_the_table(device, measured, peak):
    one = facts.ceiling(device)
    assert (one.measured / 1e12, one.peak / 1e12) == (measured, peak) and 0 < one.share < 1


def test_a_ceiling_says_what_the_device_record_says():
    for name, one in facts.ceilings().items():
        if name in facts.devices() and facts.device(name).get("matmul_flops"):
            assert facts.device(name).matmul_flops == one.measured


def test_ceilings_come_nearest_to_their_peak_first():
    shares = [one.share for one in facts.ceilings().values()]
    assert shares == sorted(shares, reverse=True) and shares[0] < 1
