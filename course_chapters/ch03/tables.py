"""The tables of chapter 03."""

import math
from collections.abc import Sequence
from functools import partial

from IPython.display import Markdown

from course_chapters.ch03.exercises.numbers import H100
from course_chapters.table import table
from course_lib.cluster.collectives import ring_cost
from course_lib.estimate import facts, roofline
from course_lib.estimate.units import GB, TFLOP, duration_text, number_text, percent_text, rate_text


def speed(nbytes_per_s: float) -> str:
    """Bytes per second in GB/s, as a text."""
    return f"{number_text(nbytes_per_s / GB)} GB/s"


def operators(shape: facts.ModelShape, tokens: int, machine: roofline.Machine) -> Markdown:
    """The operators of a layer: intensity, the roof that binds, and the share of the peak that it allows."""
    attention = partial(
        roofline.attention, 1, heads=shape.heads, head_dim=shape.head_dim, kv_heads=shape.kv_heads, keys=tokens
    )
    works = {
        "matmul, up-projection": roofline.matmul(tokens, shape.hidden, shape.ffn),
        "ReLU": roofline.relu(tokens * shape.ffn),
        "layer norm": roofline.layernorm(tokens, shape.hidden),
        "softmax of the scores, alone": roofline.softmax(shape.heads * tokens, tokens),
        "attention, scores written": attention(queries=tokens, fused=False),
        "attention, fused": attention(queries=tokens),
        "attention of one new token": attention(queries=1),
    }
    rows = []
    for name, work in works.items():
        top = roofline.place(work, machine)
        share = percent_text(top.flops_per_s / machine.flops, 2)
        intensity = number_text(work.memory_intensity)
        rows.append({"operator": name, "FLOP per byte": intensity, "bound by": top.bound, "of peak, at most": share})
    return table(rows)


def loads_by_cache(side: int, tile: int) -> Markdown:
    """Loads of a square tiled matmul, counted through caches of three sizes, over the formula for three tiles."""
    formula = roofline.tile_loads(side, side, side, tile, tile)
    caches = {"three tiles": 3 * tile**2, "three rows of tiles": 3 * side * tile, "all three matrices": 3 * side**2}
    rows = []
    for name, cache in caches.items():
        counted = roofline.count_loads(side, side, side, tile, tile, tile, cache)
        loads = {"loads of A": f"{counted.a:,}", "loads of B": f"{counted.b:,}"}
        rows.append({"cache for": name, **loads, "over the formula": f"{counted.loaded / formula:.2f}"})
    return table(rows)


def peaks_from_counts() -> Markdown:
    """The peaks of every GPU whose inside is published, multiplied from counts, beside the data sheet's."""
    rows = []
    for name, chip in facts.chips().items():
        sheet, cores = facts.device(name).dense_flops, chip.sms * chip.tensor_cores_per_sm
        if not math.isclose(chip.tensor_flops, sheet, rel_tol=0.01):
            raise AssertionError(f"{name}: {rate_text(chip.tensor_flops)} from its counts, {sheet.text} on its sheet.")
        tensor = {"tensor cores": f"{cores:,.0f}", "product": rate_text(chip.tensor_flops), "sheet": sheet.text}
        plain = {"plain cores": f"{chip.sms * chip.cores_per_sm:,.0f}", "fp32 product": rate_text(chip.fp32_flops)}
        rows.append({"GPU": name, "SMs": f"{chip.sms:.0f}", **tensor, **plain})
    return table(rows)


def roofs_by_tokens(counts: Sequence[int]) -> Markdown:
    """What binds a data-parallel step of an 8B model on one H100 with so many tokens per GPU, over each wire."""
    weights = facts.model("llama3-8b").params
    rows = []
    for tokens in counts:
        step = roofline.Work(6 * weights * tokens, 3 * 2 * weights, 2 * 2 * weights)
        row = {"tokens per GPU": f"{tokens:,}"}
        for name, wire in (("NVLink", "link"), ("one adapter", "network")):
            top = roofline.place(step, roofline.machine("H100 SXM", wire=wire))
            row[f"over {name}"] = f"{top.bound}, {percent_text(top.flops_per_s / H100.dense_flops, 2)} of peak"
        rows.append(row)
    return table(rows)


def levels(topology: str) -> Markdown:
    """The levels of a cluster of H100s, with the bandwidth of one device in every way of publishing it."""
    _, *outer = roofline.levels(topology)
    rows = []
    for level in outer:
        one, server = level.bandwidth, outer[0].devices
        published = {"one way": speed(one), "both ways": speed(2 * one), "per server": speed(server * one)}
        inside, memory = f"÷ {number_text(1 / level.ratio)}", f"÷ {number_text(H100.bandwidth / one)}"
        slower = {"against the level inside": inside, "against its own memory": memory}
        rows.append({"across a": level.name, "devices": f"{level.devices:,}", **published, **slower})
    return table(rows)


def torus_sums(chip: facts.Device, sides: Sequence[int], nbytes: float) -> Markdown:
    """A sum over a torus of chips with six links each, along one ring or along three axes at once."""
    chips = math.prod(sides)
    rows = []
    for name, links, messages in (
        ("one ring through all", 2, 2 * (chips - 1)),
        ("rings along three axes", 6, 2 * sum(side - 1 for side in sides)),
    ):
        rate = chip.link_one_way * links / 6
        took = ring_cost(nbytes, chips, 0.0, rate).seconds
        cost = {"bandwidth, one way": speed(rate), "time for the bytes": duration_text(took)}
        rows.append({f"sum over {chips:,} chips": name, **cost, "messages in a row": f"{messages:,}"})
    return table(rows)


def devices() -> Markdown:
    """Every accelerator of the facts: peaks in TFLOP/s, memory in GB, bandwidths in GB/s per device."""

    def cell(fact: float | None, unit: float) -> str:
        return "–" if fact is None else number_text(fact / unit, 4 if unit > 1e10 else 3)

    rows = []
    for one in facts.devices(announced=True).values():
        row = {"device": one.name + " (announced)" * one.announced, "year": one.year}
        for name, fact in (
            ("dense 16-bit", one.get("dense_flops")),
            ("sparse", one.get("sparse_flops")),
            ("fp32", one.get("fp32_flops")),
        ):
            row[f"{name} (TFLOP/s)"] = cell(fact, TFLOP)
        row["memory (GB)"] = cell(one.memory, GB)
        for name, fact in (
            ("memory", one.bandwidth),
            ("link, one way", one.get("link_one_way")),
            ("link, both ways", one.get("link_both_ways")),
            ("network", one.get("network_one_way")),
        ):
            row[f"{name} (GB/s)"] = cell(fact, GB)
        row["ridge"] = number_text(one.dense_flops / one.bandwidth) if one.get("dense_flops") else "–"
        authors = facts.reference(one.source).authors.split(" and ")[0]
        rows.append(row | {"source": authors.removesuffix(" (Google DeepMind)")})
    return table(rows)


def best_matmuls() -> Markdown:
    """The best measured bf16 matmul of each device beside the peak of its data sheet."""
    return table(
        [
            {
                "device": one.device,
                "sheet": one.peak.text,
                "best matmul": one.measured.text,
                "share": percent_text(one.share),
            }
            for one in facts.ceilings().values()
            if one.dtype == "bf16"
        ]
    )
