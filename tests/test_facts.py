"""Facts: every number has a unit, a source, a date and a condition, and agrees with what can be derived."""

import copy
import dataclasses
import math
import pickle
import re

import pytest

from course_chapters import course
from course_lib.estimate import facts, memory
from course_lib.estimate.facts import Fact
from course_lib.estimate.facts.fact import fact_of, rows
from course_runs import gpus
from tests.tables import each_of

DATED = ("devices.csv", "gpus.csv", "runs.csv", "prices.csv", "claims.csv")
DATE = re.compile(r"(19|20)\d\d(-(0[1-9]|1[0-2]))?$")
H100 = facts.device("H100 SXM")
ABOUT = ("name", "vendor", "year", "kind", "memory_type", "link", "source", "announced")  # a device but for its numbers


def all_facts():
    """Every fact in every record, with a name to find it by."""
    records = [*facts.devices(announced=True).values(), *facts.runs().values(), *facts.claims().values()]
    for record in records:
        name = getattr(record, "name", None) or record.key
        numbers = record.numbers if isinstance(record, facts.Sheet) else {"value": record.value}
        for number, value in numbers.items():
            yield f"{name}.{number}", value
    for name, price in facts.prices().items():
        yield name, price


@each_of("missing", ["unit", "source", "date", "condition"])
@each_of("empty", ["", "   ", None])
def test_a_number_without_unit_source_date_or_condition_is_no_fact(missing, empty):
    said = {"unit": "B", "source": "a paper", "date": "2024", "condition": "nominal", missing: empty}
    with pytest.raises(ValueError, match=f"has no {missing}"):
        Fact(80e9, **said)


def test_every_fact_of_every_record_says_all_four():
    found = list(all_facts())
    assert len(found) > 300
    for name, fact in found:
        assert all((fact.unit, fact.source, fact.date, fact.condition)), name
        assert DATE.match(fact.date), f"{name}: {fact.date}"
        assert fact > 0 or name == "ring-free-scaling.value", name  # which says that nothing is added


@each_of("file", DATED)
def test_every_row_of_a_file_of_values_has_every_cell_and_a_known_source(file):
    for row in rows(file):
        assert None not in row.values() and all(cell.strip() for cell in row.values()), row
        facts.reference(row["source"])
        assert "memory" not in row["source"]


@each_of("file, of", [("devices.csv", "device"), ("gpus.csv", "of"), ("runs.csv", "run")])
def test_no_value_is_given_twice_in_one_file(file, of):
    seen = [(row[of], row["field"]) for row in rows(file)]
    assert len(seen) == len(set(seen))


@each_of("file, names, of", [("devices.csv", "device_names.csv", "device"), ("runs.csv", "run_names.csv", "run")])
def test_what_has_values_has_a_name(file, names, of):
    """A device or run without a row in the file of names would be left out without a word."""
    assert {row[of] for row in rows(file)} == {row[of] for row in rows(names)}


def test_a_source_is_dated_and_can_be_found():
    for key, one in facts.references().items():
        assert one.authors and one.title and DATE.match(one.date), key
        findable = one.url.startswith("https://") or one.kind in ("lesson", "assumption")
        assert findable, key
        assert one.date.startswith(str(one.year)), key


def test_references_say_which_number_they_support():
    must = [
        "zero-2019", "micikevicius-2017", "kaplan-2020", "hoffmann-2022", "gpipe-2018", "megatron-2019",
        "megatron-2021", "llama3-2024", "korthikanti-2022", "patarasuk-2009",
    ]  # fmt: skip
    for key in must:
        assert facts.reference(key).supports, key


# --- a fact is a float ---------------------------------------------------------------------------


def test_arithmetic_gives_plain_floats_that_claim_no_source():
    assert type(H100.memory * 2) is float
    assert type(-H100.memory) is float
    assert type(sum([H100.memory, H100.memory])) is float


def test_a_fact_prints_as_a_number_and_shows_its_source():
    assert f"{H100.memory:.0f}" == "80000000000"
    assert str(H100.memory) == "80000000000.0"
    assert H100.memory.text == "80 GB"
    assert "nominal" in repr(H100.memory) and "2025" in repr(H100.memory)


@each_of("copied", [copy.copy, copy.deepcopy, lambda fact: pickle.loads(pickle.dumps(fact))])
def test_a_copied_fact_keeps_what_stands_behind_it(copied):
    again = copied(H100.dense_flops)
    assert (again, again.unit, again.source) == (H100.dense_flops, H100.dense_flops.unit, H100.dense_flops.source)


# --- hardware --------------------------------------------------------------------------------------


@each_of(
    "name, capability, multiprocessors, driver, bridge, adds",
    ("V100 SXM2 16GB", 7.0, 80, 375, None, False),
    ("A100 PCIe 80GB", 8.0, 108, 440, 300e9, False),
    ("H100 SXM", 9.0, 132, 515, None, True),
    ("H100 PCIe", 9.0, 114, 515, 300e9, False),
    ("H200 SXM", 9.0, None, 515, None, True),
    ("H800 SXM", None, 132, None, None, True),
    ("B200 SXM", 10.0, 148, 560, None, True),
    ("GB300", None, None, None, None, True),
    ("MI300X", None, None, None, None, False),
)
def test_what_software_sees_of_a_gpu_is_sourced_or_unknown(name, capability, multiprocessors, driver, bridge, adds):
    one = gpus.gpu(name)
    numbers = (one.capability, one.multiprocessors, one.driver, one.bridge_one_way)
    assert numbers == (capability, multiprocessors, driver, bridge)
    assert all(number is None or number.source for number in numbers) and one.switch_adds == adds


@each_of(
    "name, port, in_server",
    [("A100 SXM 80GB", 31.5e9, None), ("H100 SXM", 64e9, 8), ("H100 PCIe", 64e9, None), ("GB200", None, None)],
)
def test_the_port_of_a_gpu_carries_less_than_its_links_and_more_than_its_network_card(name, port, in_server):
    one, sheet = gpus.gpu(name), facts.device(name)
    assert (one.port_one_way, one.in_server) == (port, in_server)
    assert port is None or (sheet.get("network_one_way") or 0) < port < 1.05 * sheet.link_one_way


def test_floors_and_peaks_of_software_have_sources():
    found = [gpus.quickest_seconds("NCCL"), gpus.quickest_seconds("process"), gpus.fastest_core()]
    assert all(number.source and number.condition for number in found) and found[0] < 5e-6
    assert gpus.eight_bit_capability() == (8, 9)


def test_multiprocessors_are_counted_in_one_place():
    assert gpus.gpu("H100 SXM").multiprocessors is facts.chip("H100 SXM").sms


@each_of(
    "name, field, value",
    ("H100 SXM", "dense_flops", 989e12),
    ("H100 SXM", "sparse_flops", 1979e12),
    ("H100 SXM", "bandwidth", 3350e9),
    ("H100 SXM", "link_one_way", 450e9),
    ("H100 SXM", "network_one_way", 50e9),
    ("A100 SXM 80GB", "dense_flops", 312e12),
    ("B200 SXM", "dense_flops", 2250e12),
    ("GB200", "dense_flops", 2500e12),
    ("TPU v4", "dense_flops", 275e12),
)
def test_devices_have_the_published_dense_values_in_base_units(name, field, value):
    assert getattr(facts.device(name), field) == value


def test_a_number_without_a_source_is_an_error_that_names_it_and_one_may_ask_first():
    k40 = facts.device("K40")
    assert k40.get("dense_flops") is None and k40.get("fp32_flops") == k40.fp32_flops
    with pytest.raises(ValueError, match="No source that we trust gives dense_flops of K40"):
        print(k40.dense_flops)
    with pytest.raises(AttributeError, match="no number 'dense_flop'"):
        k40.get("dense_flop")
    with pytest.raises(AttributeError, match="no number 'watts'"):
        facts.Device(**{name: getattr(k40, name) for name in ABOUT}, numbers={"watts": k40.memory})
    assert copy.copy(k40) == k40 and hash(k40) == hash(pickle.loads(pickle.dumps(k40)))


def test_a_sparse_peak_is_twice_the_dense_one_and_says_so():
    with_sparse = [one for one in facts.devices().values() if one.get("sparse_flops")]
    assert {one.name for one in with_sparse} >= {"A100 SXM 80GB", "H100 SXM", "B200 SXM"}
    for one in with_sparse:
        assert one.sparse_flops == pytest.approx(2 * one.dense_flops, rel=0.002), one.name
        assert "2:4" in one.sparse_flops.condition
        assert "dense" in one.dense_flops.condition


def test_what_is_only_announced_says_so_and_is_not_among_the_devices_that_one_can_have():
    known = facts.devices(announced=True)
    announced = set(known) - set(facts.devices())
    assert announced == {name for name, one in known.items() if one.announced} == {"Rubin", "MI455X"}
    assert all("announced" in known[name].dense_flops.condition for name in announced)
    assert facts.device("Rubin").link_one_way == 2 * facts.link("NVLink5").one_way


def test_both_ways_is_twice_one_way():
    linked = [one for one in facts.devices(announced=True).values() if one.get("link_one_way")]
    assert len(linked) > 20
    for one in linked:
        assert one.link_both_ways == 2 * one.link_one_way, one.name
        assert "one direction" in one.link_one_way.condition
        assert "both directions" in one.link_both_ways.condition


def test_no_measured_matmul_beats_its_peak():
    measured = [one for one in facts.devices().values() if one.get("matmul_flops")]
    assert len(measured) > 5
    for one in measured:
        assert 0.4 < one.matmul_flops / one.dense_flops < 1, one.name


def test_a_link_is_read_off_a_device():
    assert facts.link("NVLink4").one_way is facts.device("H100 SXM").link_one_way
    assert facts.link("NVLink4").one_way / facts.link("400 Gb/s adapter").one_way == 9
    assert all(one.one_way > 0 for one in facts.links().values())


# --- models ----------------------------------------------------------------------------------------


@each_of("shape", facts.models().values(), ids=facts.models())
def test_parameters_agree_with_the_published_count(shape):
    assert shape.params / 1e9 == pytest.approx(shape.published_billion, rel=0.005)
    assert shape.active_params <= shape.params
    assert shape.heads % shape.kv_heads == 0


@each_of("shape", facts.models().values(), ids=facts.models())
def test_parameters_are_what_the_shape_gives(shape):
    assert memory.count_params(shape) == shape.params
    per_expert = 3 * shape.hidden * shape.expert_ffn + shape.expert_biases * (2 * shape.expert_ffn + shape.hidden)
    mixtures = (shape.layers - shape.dense_layers) // shape.expert_every if shape.experts else 0
    assert shape.params - shape.active_params == mixtures * (shape.experts - shape.top_k) * per_expert


@each_of("one", facts.checkpoints(), ids=lambda one: one.model)
def test_a_published_checkpoint_holds_exactly_the_parameters_of_the_shape(one):
    assert memory.count_params(one.model) == one.parameters - one.besides
    assert one.source and one.date and one.condition


def test_twenty_and_more_checkpoints_are_counted_of_every_family():
    named = {one.model for one in facts.checkpoints()}
    assert len(named) == len(facts.checkpoints()) > 30
    families = ("qwen3-", "qwen2.5-", "qwen1.5-moe", "gpt-oss-", "deepseek-", "kimi-", "llama4-", "glm-", "bloom-")
    assert all(any(name.startswith(family) for name in named) for family in families)


def _scale_blocks(rows_: int, columns: int) -> int:
    """Scales of a matrix that has one for each block of 128 by 128."""
    return math.ceil(rows_ / 128) * math.ceil(columns / 128)


def _scales(shape, layers: int, mixtures: int) -> int:
    key = shape.plain_dim + shape.rotary_dim
    matrices = [
        (shape.query_latent, shape.hidden),
        (shape.heads * key, shape.query_latent),
        (shape.latent + shape.rotary_dim, shape.hidden),
        (shape.heads * (shape.plain_dim + shape.value_dim), shape.latent),
        (shape.hidden, shape.heads * shape.value_dim),
    ]
    experts = mixtures * (shape.experts + 1) * 3 * _scale_blocks(shape.expert_ffn, shape.hidden)
    dense = (layers - mixtures) * 3 * _scale_blocks(shape.ffn, shape.hidden)
    return layers * sum(_scale_blocks(*each) for each in matrices) + experts + dense


def _second_token(shape) -> int:
    """Parameters of the module that predicts a second token: a layer, a projection, norms, both tables once more."""
    one = memory.shape(shape)
    layer = memory.layer_params(dataclasses.replace(one, layers=1, dense_layers=0))
    return round(layer) + 2 * shape.hidden**2 + 3 * shape.hidden + 2 * shape.vocab * shape.hidden


def test_what_a_checkpoint_holds_besides_is_counted_too():
    besides = {one.model: one.besides for one in facts.checkpoints()}
    v3 = facts.model("deepseek-v3")
    assert besides["deepseek-v3"] == _second_token(v3) + _scales(v3, v3.layers + 1, v3.layers - 2)
    assert besides["deepseek-v3.2"] == _second_token(facts.model("deepseek-v3.2"))
    assert besides["glm-4.5"] == _second_token(facts.model("glm-4.5"))
    wide, inner, layers = 1408, 5632, 34  # Llama 4's vision encoder
    layer = 4 * (wide + 1) * wide + (2 * wide + 1) * inner + 5 * wide
    ends = (3 * 14**2 + 1 + 577 + 4) * wide + inner * 4096 + 4096**2 + 4096 * 5120
    assert besides["llama4-scout"] == besides["llama4-maverick"] == layers * layer + ends
    assert sum(map(bool, besides.values())) == 5


# --- runs, prices, claims --------------------------------------------------------------------------


def test_runs_are_dated_and_reach_from_2017_to_2025():
    years = [run.year for run in facts.runs().values()]
    assert years == sorted(years)
    assert (int(years[0]), int(years[-1])) == (2017, 2025)


@each_of("name", ["GPT-3 175B", "Llama 3.1 405B"])
def test_printed_flops_agree_with_six_times_parameters_times_tokens(name):
    run = facts.run(name)
    assert run.train_flops == pytest.approx(6 * run.params * run.tokens, rel=0.01)


def test_layouts_of_llama_3_multiply_out_to_their_gpus_and_tokens():
    laid_out = [run for run in facts.runs().values() if run.get("tp")]
    assert len(laid_out) == 3
    for run in laid_out:
        assert run.tp * run.cp * run.pp * run.dp == run.devices
        assert run.flops_per_device / H100.dense_flops == pytest.approx(run.mfu, abs=0.006)


def test_deepseeks_price_and_hours_give_the_printed_cost_of_pretraining():
    assert facts.run("DeepSeek-V3").device_hours * facts.price("H800 hour, DeepSeek-V3") == 5.328e6


def test_the_exercise_price_calls_itself_an_assumption():
    assert "assumption" in facts.price("H100 hour").condition


def test_claims_hold_no_verdict():
    fields = {field.name for field in dataclasses.fields(facts.claim("step-70b-8ms"))}
    assert fields == {"key", "chapters", "text", "value"}
    for chapter, least in (("01", 14), ("03", 11), ("06", 9)):
        found = facts.claims(chapter)
        assert all(chapter in one.chapters for one in found.values()) and len(found) >= least
    assert facts.claim("llama3-54-days").chapters == ("01", "14")  # one statement, audited twice


# --- look-ups --------------------------------------------------------------------------------------


@each_of(
    "look, name, near",
    (facts.device, "H100", "H100 SXM"),
    (facts.device, "h100 smx", "H100 SXM"),
    (facts.model, "llama3", "llama3-70b"),
    (facts.run, "PaLM", "PaLM 540B"),
    (facts.link, "NVLink", "NVLink4"),
    (facts.price, "H100", "H100 hour"),
    (facts.claim, "17 days", "llama3-17-days"),
    (facts.model, "?", "There are"),
    (facts.reference, "zero", "zero-2019"),
    (course.chapter, "6", "06"),
)
def test_an_unknown_name_is_answered_with_near_ones(look, name, near):
    with pytest.raises(ValueError, match=re.escape(name)) as caught:
        look(name)
    assert near in str(caught.value)


def test_names_are_found_in_any_case():
    assert facts.device(" h100 sxm ").name == "H100 SXM"


def test_a_row_is_read_in_base_units():
    row = {"value": "989", "unit": "TFLOP/s", "condition": "dense", "source": "this-course", "date": "2026-11"}
    assert fact_of(row) == 989e12
    assert fact_of(row).unit == "FLOP/s"


# --- the course about itself -----------------------------------------------------------------------


def test_the_chapters_are_numbered_without_a_gap():
    assert list(course.chapters()) == [f"{number:02}" for number in range(len(course.chapters()))]
    assert all(one.folder.startswith(f"{number}_") and one.question for number, one in course.chapters().items())


def test_every_chapter_and_idea_that_is_named_exists():
    numbers = set(course.chapters())
    nodes = course.nodes()
    for node in nodes.values():
        assert set(node.needs) <= set(nodes) and {node.home, *node.chapters} <= numbers, node.key
    for symptom in course.symptoms().values():
        assert set(symptom.nodes) <= set(nodes) and {number for number, _ in symptom.chapters} <= numbers
    for conflict in course.conflicts().values():
        assert {conflict.one, conflict.other} <= set(nodes) and set(conflict.chapters) <= numbers
    for entry in [*course.thesis().values(), *course.glossary().values()]:
        assert entry.chapter in numbers


def test_the_map_can_be_read_as_listed_and_not_backwards():
    order = list(course.nodes())
    assert course.out_of_order(order) == []
    assert ("data-parallel", "memory-wall") in course.out_of_order(order[::-1])
    with pytest.raises(ValueError, match="No idea called"):
        course.out_of_order(["everything"])


def test_the_thesis_has_one_property_and_one_chapter_for_each_strategy():
    rows_ = course.thesis().values()
    assert len({row.property for row in rows_}) == len({row.chapter for row in rows_}) == len(rows_) == 6
    for row in rows_:
        assert row.property == course.chapter(row.chapter).property or row.chapter in ("09", "10", "11", "12")


def test_three_letters_that_other_texts_use_otherwise_say_so():
    assert all(course.symbols()[letter].elsewhere for letter in ("Ψ", "D", "N", "p"))
    assert len(course.outcomes()) == 4
