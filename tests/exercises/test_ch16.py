"""Chapter 16's exercises: oracles equal simulation, torch and exact counting; shipped answers equal oracles on drawn
input."""

import math
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_chapters.ch16.exercises.judges.speculative_sampler import _pair, outputs
from course_chapters.ch16.planned import LIMIT, serve_by_plan
from course_grader.judging import Worked
from course_grader.judging.worked import judged_variant


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
