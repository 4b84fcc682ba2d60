"""Chapter 16's widgets, tables and numbers show what the library computes."""

import pytest

from course_chapters.ch16 import batch_rows, page_pool, plots, serving_curves, serving_errors
from course_chapters.ch16.exercises import numbers
from course_lib.estimate import facts
from course_lib.operate import serving
from tests.tables import each_of


@each_of("size", page_pool.PAGE_SIZES)
@each_of("share", [True, False])
def test_the_film_shows_what_the_engine_did(size, share):
    server, coming, requests = page_pool.engine(size, share), page_pool.arrivals(), []
    for step, frame in enumerate(page_pool.pool_film(size, share)):
        while coming and coming[0][0] <= step:
            requests.append(server.submit(*coming.pop(0)[1:]))
        lost = server.preemptions
        server.step()
        assert len(frame.freed) == server.preemptions - lost
        assert [each.state for each in frame.requests.values()] == [each.state for each in requests]
        assert {name: each.pages for name, each in frame.requests.items() if each.pages} == {
            each.id: server.pool.table(each.id) for each in server.running
        }
        assert frame.used == server.pages_used and frame.kept == server.pool.kept_pages
        assert share or all(len(names) < 2 for names in page_pool.owners(frame))


def test_the_long_prompt_stalls_the_others_only_under_continuous_batching():
    gaps = {kind: batch_rows.batch_run(kind).gaps.max() for kind in batch_rows.KINDS}
    assert gaps["continuous"] > 10 * gaps["chunked"]
    assert batch_rows.batch_run("static").finish.max() > 2 * batch_rows.batch_run("chunked").finish.max()
    longest = max(one.prompt for one in batch_rows.BATCH_REQUESTS)
    others = sorted(one.prompt for one in batch_rows.BATCH_REQUESTS)[:-1]
    assert 18 < longest / (sum(others) / len(others)) < 24  # "twenty times", as the text says
    assert "10 of 10 done" in batch_rows.draw_batch().alt


def test_the_curve_has_a_knee():
    low, high = (
        serving_curves.load_point(rate, "chunked", 1024)[1]
        for rate in (serving_curves.RATES[0], serving_curves.RATES[-1])
    )
    assert high > 10 * low
    assert serving_curves.load_point(7.0, "static", 1024)[1] > 10 * serving_curves.load_point(7.0, "chunked", 1024)[1]


def test_a_longer_context_bounds_the_intensity_of_decoding():
    short, long = (serving_curves.intensity(0, 0, 256, 256 * context) for context in (0, 8192))
    assert short > 10 * long and serving_curves.intensity(1024, serving.causal_pairs(1024), 0, 0) > 500
    assert "Decode reaches" in serving_curves.draw_phases(1, 0, 16).alt


def test_the_best_number_of_drafts_is_that_of_the_highest_speedup():
    best = max(range(13), key=lambda drafted: serving.speedup(0.8, drafted, 0.1))
    assert serving_curves.draw_drafts(0.8, 0.1).alt.startswith(f"Best with {best} drafted tokens")


def test_the_tables_say_what_the_text_concludes():
    assert numbers.NUMBERS["large_token"]() in plots.cache_table().data
    small, large = (serving.server_layouts(one, 8, 1024, 256) for one in (numbers.SMALL, numbers.LARGE))
    assert small[-1].tokens_per_s < small[0].tokens_per_s / 2 and max(large, key=lambda row: row.tokens_per_s).tp == 4
    assert serving_errors.quantization()[4, "channel"] < 0.6 * serving_errors.quantization()[4, "token"]
    assert "TensorRT-LLM 1.0" in plots.errors_table().data and "119 rows" in plots.errors_plot().alt
    assert "226.9" in plots.day_table().data and "32 × 2" in plots.plan_table().data
    assert "5.8 billion" in plots.lifetime_table().data and "85 ms" in plots.prefix_table().data
    for table in (plots.phases_table, plots.schedulers_table, plots.queue_table, plots.pools_table, plots.cost_table):
        assert table().data.count("\n") >= 5


def test_every_number_of_the_prose_is_a_text_and_the_plan_is_the_cheapest():
    assert all(isinstance(make(), str) and make() for make in numbers.NUMBERS.values())
    kinds = [
        serving.Deployment(model="llama3-70b", device="H100 SXM", tp=tp, weight_size=size, kv_size=size)
        for size, tp in ((2.0, 4), (2.0, 8), (1.0, 2), (1.0, 4))
    ]
    assert numbers.NUMBERS["plan_rate"]() == f"{max(map(numbers.plan_rate, kinds)):,.0f}"
    assert facts.model("deepseek-v3").latent_width == int(numbers.NUMBERS["latent"]())


def test_the_last_column_of_the_lifetime_table_is_the_share_of_all_flop_that_trains():
    heading, _, *rows = plots.lifetime_table().data.splitlines()
    assert "share of all FLOP that trains" in heading
    for row, served in zip(rows, (0, 1e12, 1e13, 1e14), strict=True):
        _, params, tokens, _, share = (cell.strip() for cell in row.strip("| ").split("|"))
        n, d = 1e9 * float(params.split()[0]), 1e12 * float(tokens.split()[0])
        assert float(share.strip(" %")) / 100 == pytest.approx(6 * n * d / (6 * n * d + 2 * n * served), abs=0.01)
