"""Chapter 16's exercises: oracles equal simulation, torch and exact counting; shipped answers equal oracles on drawn
input."""

import math
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_chapters.ch16.exercises.judges.speculative_sampler import _pair, _row, outputs
from course_chapters.ch16.planned import LIMIT, serve_by_plan
from course_grader.judging import Worked
from course_grader.judging.frequencies import surprise
from course_grader.judging.worked import judged_variant
from course_lib.estimate import facts


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), copies=st.sampled_from(["written", "forked"]))
def test_no_page_is_written_by_two_and_none_is_lost(seed, copies):
    with judged_variant("page-table", {"copies": copies}):
        table = Worked("page-table")(9, 3)
    draw, names = random.Random(seed), "abcde"
    for _ in range(60):
        name = draw.choice(names)
        operation = draw.choice(("append", "append", "fork", "free")) if name in table.pages else "start"
        new = [each for each in names if each not in table.pages]
        before = {each: table.table(each) for each in table.pages}
        try:
            if operation == "fork" and new:
                table.fork(name, new[0])
            elif operation == "start":
                table.start(name, draw.randrange(7))
            elif operation != "fork":
                getattr(table, operation)(name)
        except MemoryError:
            assert {each: table.table(each) for each in table.pages} == before
        if operation == "append" and table.tokens[name] % 3:
            last = table.pages[name][-1]
            others = [each for each in table.pages if each != name and table.tokens[each] % 3]
            changed = table.table(name) != before[name]
            assert not changed or all(last not in table.pages[each] for each in others)
        used = {page for pages in table.pages.values() for page in pages}
        assert len(used) + table.unused() == 9
        assert all(len(table.pages[each]) == -(-table.tokens[each] // 3) for each in table.pages)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_pages_of_a_prefix_cache_add_up_and_a_hit_is_a_prefix_seen_before(seed):
    draw, cache, seen = random.Random(seed), Worked("prefix-cache")(10, 2), set()
    for number in range(60):
        if cache.requests and draw.random() < 0.5:
            cache.release(draw.choice(sorted(cache.requests)))
        else:
            tokens = [draw.randrange(2) for _ in range(draw.randrange(1, 10))]
            hit = cache.admit(f"q{number}", tokens, "")
            if hit is not None:
                assert hit % 2 == 0 and hit < len(tokens) and (hit == 0 or tuple(tokens[:hit]) in seen)
                seen |= {tuple(tokens[:end]) for end in range(2, len(tokens) + 1, 2)}
        others = sum(more for _, more in cache.requests.values())
        assert cache.empty + len(cache.users) + others == 10
        assert set(cache.unused) == {key for key, users in cache.users.items() if users == 0}


def test_a_printed_cache_is_computed_from_the_shape_of_its_model():
    token = Worked("kv-cache-bytes")[0](
        40, 40, 40, 5120 // 40, 2, 1
    )  # OPT 13B: 40 layers of 40 heads, hidden size 5,120, FP16
    assert token == 2 * 40 * 5120 * 2 == 800 * 1024  # printed as 800 KB
    assert token == pytest.approx(facts.claim("opt-13b-token").value, rel=0.03)
    assert Worked("audit-serving")()["opt-13b-token"][0] == token / 1000


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), prompts=st.sampled_from(["chunked", "whole"]))
def test_every_request_is_answered_in_order_within_budget_and_pages(seed, prompts):
    draw, size, pages = random.Random(seed), 3, 12
    requests = [(f"q{at}", at // 3, draw.randrange(1, 20), draw.randrange(1, 12)) for at in range(10)]
    seen: Counter = Counter()

    def watched(running, waiting, budget, free, width):
        with judged_variant("continuous-batching", {"prompts": prompts}):
            made = run, gone = [*Worked("continuous-batching")(running, waiting, budget, free, width)]
        assert sum(run.values()) <= budget
        held = {name: cached for name, _, cached in [*running, *waiting] if name not in gone}
        kept = sum(-(-(cached + run.get(name, 0)) // width) for name, cached in held.items())
        assert kept <= pages and not (gone and any(name in run for name, *_ in waiting))
        started = [name for name, *_ in waiting if name in run]
        assert started == [name for name, *_ in waiting][: len(started)]
        seen.update(run)
        return made

    made = serve_by_plan(watched, requests, 32, pages, size)
    assert len(made) < LIMIT and set(seen) == {name for name, *_ in requests}


def test_outputs_have_the_distribution_of_the_target():
    draw = random.Random(3)
    target, draft = _pair(draw, 3)
    for proposals in (draft, None):
        found = outputs(target, proposals, 0, 2)
        assert math.fsum(found.values()) == pytest.approx(1)
        for token in range(3):
            first = math.fsum(p for output, p in found.items() if output[0] == token)
            assert first == pytest.approx(target[0][token])
            after = math.fsum(p for output, p in found.items() if len(output) > 1 and output[0] == token)
            if after:
                for other in range(3):
                    both = math.fsum(p for output, p in found.items() if output[:2] == (token, other))
                    assert both / after == pytest.approx(target[token][other])


def test_a_sample_of_the_distribution_is_no_surprise_and_one_of_each_mistake_is():
    draw = random.Random(5)
    target, draft = _pair(draw, 4)
    want = outputs(target, draft, 1, 1)
    for rule in ("right", "drawn-from-target", "no-draft", "all-kept", "greedy-accept", "wrong-side"):
        from_rule = outputs(target, draft, 1, 1, rule)
        far = []
        for _ in range(20):
            drawn = draw.choices(list(from_rule), list(from_rule.values()), k=1500)
            far.append(surprise(Counter(drawn), want))
        assert max(far) < 4 if rule == "right" else min(far) > 6, rule
    assert all(sum(_row(draw, size, zeros=True)) == pytest.approx(1) for size in (2, 5))


def test_the_ridge_is_the_first_batch_that_computes_longer_than_it_reads():
    prefill, decode, ridge = (Worked("prefill-and-decode")[at] for at in range(3))
    for context in (0, 100, 900, 5000):
        row = (8e9, 2, 65536, context, 989e12, 3.35e12)
        found = ridge(*row)
        batches = [n for n in range(1, 4000) if 2 * 8e9 * n / 989e12 >= (16e9 + n * context * 65536) / 3.35e12]
        assert found == (batches[0] if batches else None)
    assert prefill(8e9, 32, 4096, 1, 2, 989e12, 3.35e12) == pytest.approx(16e9 / 3.35e12)
    assert decode(8e9, 2, 65536, 1, 0, 989e12, 3.35e12) == pytest.approx(16e9 / 3.35e12)


def test_codes_are_within_half_a_step():
    import torch

    x = torch.randn(4, 9, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for bits, dim in ((1, 0), (3, 1), (8, -1)):
        codes, scale, low = Worked("quantize-kv")[0](x, bits, dim)
        assert ((codes * scale + low - x).abs() <= scale / 2 + 1e-12).all()
        assert codes.min() == 0 and codes.max() == 2**bits - 1
