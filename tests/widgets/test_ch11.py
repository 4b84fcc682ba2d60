"""Chapter 11's widgets, tables and numbers show what the library computes."""

import math
import re

import pytest

from course_chapters import running_example
from course_chapters.ch11 import gpu, ring_film, ring_run, runs, score_matrix, tables
from course_chapters.ch11 import widgets as ch11
from course_chapters.ch11.exercises import numbers
from course_chapters.ch11.exercises.numbers import NUMBERS
from course_lib.estimate import facts, memory
from course_lib.parallel.context import costs
from tests.tables import each_of


def cells(made, column):
    """One column of a Markdown table."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in made.data.splitlines()]
    return [row[rows[0].index(column)] for row in rows[2:]]


# --- widgets ---------------------------------------------------------------------------------------


def test_a_longer_sequence_needs_one_remedy_after_the_other():
    names = list(ch11.remedies(8))
    first = [re.search(r"first that fits: (.*)\.", ch11.draw_memory(tokens).alt) for tokens in ch11.LENGTHS]
    order = [names.index(found[1]) if found else len(names) for found in first]
    assert order == sorted(order) and {1, 2, 3} <= set(order)
    assert running_example.GPUS == ch11.GPUS, "the plan's"


@each_of("layout", ring_run.LAYOUTS)
@each_of("causal", [True, False])
@each_of("ranks", [2, 3, 4])
def test_the_film_of_a_ring_shows_what_its_run_recorded(layout, causal, ranks):
    film = ring_run.record(ranks, layout, causal)
    forward, backward = film.steps["forward"], film.steps["backward"]
    block = min(message.nbytes for message in film.run.messages)
    arrivals = {
        rank: [m.src for m in film.run.messages if m.dst == rank and m.nbytes == block] for rank in range(ranks)
    }
    held = list(range(ranks))  # by the messages alone: a block of keys and values moves when its message does
    for step in range(ranks):
        assert [state.block for state in forward[step]] == [state.block for state in backward[step]] == held
        held = [held[arrivals[rank][step]] for rank in range(ranks)] if step < ranks - 1 else held
    mask = ring_run.CAUSAL if causal else ring_run.FULL
    for rank in range(ranks):
        first, last, home = forward[0][rank], forward[-1][rank], backward[-1][rank]
        assert last.sent + home.sent == film.run.meter.bytes_sent[rank] and first.sent == block
        assert last.top + math.log(last.total) == pytest.approx(float(film.run.results[rank][1][0, -1]), abs=1e-4)
        assert last.share == pytest.approx(1, abs=1e-4)
        assert last.keys == int(film.visible[film.positions[rank][-1]].sum())
        for steps in (forward, backward[:-1]):
            for now in (states[rank] for states in steps):
                tiles = mask.tiles(film.positions[rank], film.positions[now.block])
                area = sum((rows.stop - rows.start) * (columns.stop - columns.start) for rows, columns, _ in tiles)
                assert now.pairs == area
        gave = tuple(
            other for other in range(ranks) if film.visible[film.positions[other]][:, film.positions[rank]].any()
        )
        assert home.home == gave, "a rank that sees a key of the block adds a share, and no other does"
        for step in range(1, ranks):
            owner = backward[step][rank].block
            passed = {(owner + hop) % ranks for hop in range(1, step + 1)}
            assert set(backward[step][rank].gradient) == passed & set(backward[-1][owner].home)


def test_the_film_says_its_states_and_its_instructions_can_be_followed():
    last = int(NUMBERS["film_last"]()) - 1
    assert ring_film.draw_ring(last).alt.count("skips the block") == 3 and NUMBERS["film_idle"]() == "3 of 4 ranks"
    assert ring_film.draw_ring(last, layout="zig-zag").alt.count("computes 18 of 36 pairs") == 4
    assert "values of rank 0: computes 36 of 36 pairs; their gradient has shares of ranks 1, 2, 3" in (
        ring_film.draw_ring(last, "backward").alt
    )
    assert "whole gradient of its keys and values: shares of ranks 0, 1, 2, 3" in ring_film.draw_ring(4, "backward").alt


def test_a_zig_zag_is_even_and_documents_need_their_own():
    assert "1.73 times" in score_matrix.draw_tiles().alt and "1.00 times" in score_matrix.draw_tiles(4, "zig-zag").alt
    slow = {
        layout: float(re.search(r"has ([\d.]+) times", score_matrix.draw_tiles(4, layout, "packed documents").alt)[1])
        for layout in ("contiguous", "zig-zag", "per document")
    }
    assert slow["per document"] < 1.1 < slow["zig-zag"] < slow["contiguous"]
    assert "has 1.00 times" in score_matrix.draw_tiles(4, "contiguous", "full").alt


def test_bytes_of_the_three_ways():
    assert ch11.sent("ring", 8, 8, 1024) == ch11.sent("all-gather", 8, 8, 1024)
    assert ch11.sent("Ulysses", 32, 8, 1024) < ch11.sent("Ulysses", 8, 8, 1024) < ch11.sent("ring", 8, 8, 1024)
    assert ch11.sent("Ulysses", 2, 1, 1024) > ch11.sent("ring", 2, 1, 1024)
    assert all(ch11.sent(way, 1, 8, 1024) == 0 for way in ch11.WAYS)


@each_of("wire", ch11.WIRES)
@each_of("causal", [True, False])
def test_a_transfer_is_hidden_from_the_formulas_length_on(wire, causal):
    fewest = costs.tokens_to_hide(64, 8, ch11.H100.matmul_flops, ch11.WIRES[wire], 2, 0.5 if causal else 1.0)
    for tokens, hidden in ((0.99 * fewest, False), (1.01 * fewest, True)):
        busy, travel = ch11.ring_step(tokens, 8, wire, causal)
        assert (busy >= travel) == hidden
    assert "0 % of the transfer is exposed" in ch11.draw_hide(65536, 8, wire, causal).alt


# --- tables and numbers ------------------------------------------------------------------------------


def test_sequence_parallelism_leaves_nothing_repeated():
    assert cells(tables.layer_bytes(), "repeated on each")[2:] == ["0 B", "0 B"]
    per_token = numbers.LONG * numbers.SHAPE.hidden
    for sp, factor in ((False, NUMBERS["paper_tp"]), (True, NUMBERS["paper_sp"])):
        layout = memory.Layout(tp=8, sp=sp)
        plain = memory.Shape(layers=1, hidden=8192, heads=64, vocab=64, ffn=4 * 8192)
        assert memory.layer_bytes(plain, 1, numbers.LONG, layout, kernels="flash") == float(factor()) * per_token


def test_every_way_is_equal_and_sends_what_is_predicted():
    made = tables.ways()
    assert set(cells(made, "output and gradients")) == {"equal"} and cells(made, "metered") == cells(made, "predicted")


def test_work_is_even_where_the_chapter_says_so():
    slowest = dict(zip(cells(tables.work(), "layout"), cells(tables.work(), "over the mean"), strict=True))
    assert slowest["zig-zag"] == "1.000" and float(slowest["contiguous"]) > 1.6
    most = dict(
        zip(cells(tables.work(), "layout"), cells(tables.work(), "FLOPs metered on the slowest rank"), strict=True)
    )
    zig_zag, striped = (int(most[name].replace(",", "")) for name in ("zig-zag", "striped"))
    assert striped > 1.7 * zig_zag, "both are even, and one computes masked halves"
    assert cells(tables.packed([96, 8, 40, 12, 4, 32]), "slowest / mean")[-1] == "1.00"


def test_overlap_and_balance_both_shorten_a_ring():
    seconds = [
        runs.on_the_clock(layout, overlap).seconds for layout in ("contiguous", "zig-zag") for overlap in (False, True)
    ]
    assert seconds[3] < seconds[1] < seconds[0] and seconds[3] < seconds[2]


def test_a_mesh_trains_like_one_rank():
    want = runs.train_whole(2)
    assert runs.train_mesh({"dp": 2, "cp": 2}, 2) == pytest.approx(want, rel=1e-9)


def test_published_rows_and_the_plan():
    assert cells(tables.published(), "keys and values, share of a layer's time") == ["–", NUMBERS["gather_share"]()]
    assert 0.02 < numbers.gather_share(131072, 16) < 0.05 and NUMBERS["lost"]() == "5 %"
    assert facts.run("Llama 3 405B, 16,384 GPUs, 131,072 tokens").cp == 16
    rows = tables.plan()
    assert [row["fits an H100"] for row in rows] == ["yes"] * 3
    assert rows[2]["keys and values, a layer"] == NUMBERS["plan_bytes"]()


def test_the_gpu_table_measures_where_it_is_told_to_and_says_where_it_does_not():
    assert "There is no GPU here" in gpu.attention_rates("", (1024,)).data or gpu.torch.cuda.is_available()
    assert gpu.attention_rates("cpu", (16,)).data.startswith("Measured on cpu")


def test_a_block_is_hidden_from_the_first_whole_number_of_tokens_on():
    attention = lambda n: 4 * 64 * 128 * n * n / 2 / 794.5e12  # noqa: E731 - seconds of a causal ring step
    travel = lambda n: 2 * 8 * 128 * 2 * n / 50e9  # noqa: E731 - seconds of its keys and values
    assert attention(3972) < travel(3972) and attention(3973) > travel(3973)
    assert "hidden from 3,973 tokens per rank on" in ch11.draw_hide().alt
    said = [NUMBERS[name]() for name in ("hide_gqa_link", "hide_gqa_net", "hide_mha_net")]
    assert said == ["442", "3,973", "31,780"], "a whole number that is exact stays"
