"""Continuous batching: who is computed when, that pages are shared and given back, and that every reply is the model's
own."""

import random
from collections import Counter
from dataclasses import replace

import pytest
import torch

from course_lib.model import transformer
from course_lib.model.transformer import Config
from course_lib.operate.serving.model_cache import generate
from course_lib.operate.serving.prefix_pool import PrefixPool
from course_runs.serving.engine import FINISHED, RUNNING, WAITING, Engine, Limits, Overloaded
from course_runs.serving.paged_model import PagedModel, Sampling, draw
from tests.tables import each_of

LIMITS = Limits(context=40, pages=12, page_size=4, max_batch=4, budget=8, queue=100)


def next_token(tokens):
    """A reply that depends on every token before it: a lost, repeated or foreign one changes all that follow."""
    return hash(tuple(tokens)) % 1000


class Slots:
    """In place of a model: a memory that checks that each sequence finds its own tokens in its pages."""

    def __init__(self, page_size):
        self.size, self.kept = page_size, {}

    def __call__(self, work):
        for each in work:
            for place, token in enumerate(each.chunk.tokens, each.chunk.start):
                self.kept[each.chunk.pages[place // self.size], place % self.size] = token
        for each in work:
            end = each.chunk.start + len(each.chunk.tokens)
            found = [self.kept[each.chunk.pages[place // self.size], place % self.size] for place in range(end)]
            assert found == each.generation.tokens[:end]
        return [next_token(each.generation.tokens) for each in work]


def engine_of(**changes):
    limits = replace(LIMITS, **changes)
    return Engine(limits, Slots(limits.page_size))


def run(engine):
    steps = []
    while engine.busy:
        steps.append(engine.step())
    return steps


def expected(prompt, count):
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(next_token(tokens))
    return tokens[len(prompt) :]


def test_a_request_gets_its_reply_and_gives_back_its_pages():
    engine = engine_of()
    one = engine.submit([1, 2, 3], 5)
    steps = run(engine)
    assert (one.reply, one.reason, one.state) == (expected([1, 2, 3], 5), "length", FINISHED)
    assert [(step.prompt_tokens, step.decodes, len(step.new)) for step in steps] == [(3, 0, 1)] + [(0, 1, 1)] * 4
    assert [step.context for step in steps] == [3, 4, 5, 6, 7]
    assert engine.pages_used == 0 and engine.step() is None


def test_a_prompt_is_computed_in_chunks_beside_sequences_that_decode():
    engine = engine_of(share_prefixes=False)
    first, long = engine.submit([1, 2], 12), engine.submit(range(20), 2)
    steps = run(engine)
    # The first iteration has 6 tokens left for the long prompt, each later one 7: one goes to the sequence that
    # decodes.
    assert [step.prompt_tokens for step in steps[:3]] == [8, 7, 7]
    assert [len(step.new) for step in steps[:3]] == [1, 1, 2]
    assert first.reply == expected([1, 2], 12) and long.reply == expected(range(20), 2)


def test_a_request_joins_as_soon_as_another_ends_and_nobody_overtakes():
    engine = engine_of(max_batch=2)
    lengths = [9, 2, 3, 1, 4]
    replies = [engine.submit([n], length) for n, length in enumerate(lengths)]
    ended = []
    while engine.busy:
        before = {each for each in replies if each.state == FINISHED}
        step = engine.step()
        assert len(engine.running) <= 2 and step.running <= 2
        ended += [each.id for each in replies if each.state == FINISHED and each not in before]
        started = [each.id for each in replies if each.state != WAITING]
        assert started == sorted(started)
    assert ended == [1, 2, 3, 0, 4]


def test_out_of_pages_the_last_to_start_waits_again_and_no_token_is_lost():
    engine = engine_of(pages=6, share_prefixes=False)
    old, young = engine.submit(range(7), 14), engine.submit(range(50, 57), 14)  # 6 pages each in the end
    run(engine)
    assert engine.preemptions >= 1 and (old.preempted, young.preempted > 0) == (0, True)
    assert old.reply == expected(range(7), 14) and young.reply == expected(range(50, 57), 14)


def test_a_request_starts_only_if_a_page_is_left_for_each_that_runs():
    for prompt, starts in ((12, True), (13, False)):  # 3 and 4 pages; 4 are free, and the one that runs may need one
        engine = engine_of(pages=6, budget=40)
        engine.submit(range(7), 1 + 3)
        engine.step()
        second = engine.submit(range(50, 50 + prompt), 2)
        engine.step()
        assert (second.state == RUNNING) == starts and not engine.preemptions
        run(engine)
        assert second.reply == expected(range(50, 50 + prompt), 2)


def test_a_shared_prefix_is_computed_once():
    engine = engine_of(pages=20)
    prefix = list(range(8))
    first = engine.submit([*prefix, 30], 3)
    run(engine)
    second, third = engine.submit([*prefix, 31, 32], 3), engine.submit([*prefix[:6], 99, 33], 3)
    steps = run(engine)
    assert (first.shared, second.shared, third.shared) == (0, 8, 4)
    assert sum(step.prompt_tokens for step in steps) == 2 + 4
    assert second.reply == expected([*prefix, 31, 32], 3) and third.reply == expected([*prefix[:6], 99, 33], 3)
    whole = engine.submit(prefix, 1)
    run(engine)
    assert whole.shared == 4, "one token is left to compute, or there would be no logits"


def test_a_stop_ends_the_reply_at_its_last_token():
    engine = engine_of()
    reply = expected([5], 9)
    one = engine.submit([5], 9, stops=[reply[2:4], [-1]])
    run(engine)
    assert (one.reply, one.reason) == (reply[:4], "stop")


def test_requests_that_can_never_run_are_refused_and_change_nothing():
    engine = engine_of(pages=5)
    running = engine.submit([1], 10)
    engine.step()
    used = engine.pages_used
    for prompt, count, says in (
        ([], 3, "prompt is empty"),
        (range(31), 10, "context is 40 tokens. The prompt has 31 and max_tokens is 10, 41 together"),
        (range(11), 10, "21 tokens need 6 pages of 4 tokens, and the server has 5"),
        ([1], 0, "max_tokens is 0"),
        ([1], 1.5, "max_tokens is 1.5"),
    ):
        with pytest.raises(ValueError, match=says):
            engine.submit(prompt, count)
    assert (engine.pages_used, len(engine.waiting)) == (used, 0) and not engine.ended
    run(engine)
    assert running.reply == expected([1], 10)


def test_a_full_queue_refuses_and_says_what_the_others_wait_for():
    engine = engine_of(max_batch=2, queue=2, pages=12)
    for _ in range(2):
        engine.submit([1], 5)
    engine.step()
    for _ in range(2):
        engine.submit([2], 2)
    with pytest.raises(
        Overloaded, match="The queue is full: 2 of 2 places.*wait for a place in the batch: 2 of 2 sequences run"
    ):
        engine.submit([3], 2)
    run(engine)
    assert engine.ended == Counter(length=4, refused=1)
    engine = engine_of(max_batch=4, queue=1, pages=4)
    for prompt in (range(10), range(20, 30)):
        engine.submit(prompt, 3)
        engine.step()
    with pytest.raises(Overloaded, match="wait for free pages: 1 of 4 sequences run, and 3 of 4 pages"):
        engine.submit([3], 2)
    engine = engine_of(queue=1)
    engine.submit([1], 2)
    with pytest.raises(
        Overloaded, match="1 of 1 places. Its requests wait for the next iteration: 0 of 4 sequences run"
    ):
        engine.submit([3], 2)


def test_a_cut_request_gives_back_its_pages_wherever_it_is():
    engine = engine_of(max_batch=1)
    first, waiting = engine.submit(range(9), 9), engine.submit([1], 9)
    engine.step()
    assert (first.state, waiting.state) == (RUNNING, WAITING)
    assert engine.cancel(waiting) and engine.cancel(first) and not engine.cancel(first)
    assert engine.pages_used == 0 and not engine.busy and engine.ended == Counter(cut=2)


def test_an_iteration_that_raises_ends_its_own_requests_and_no_others():
    engine = engine_of(max_batch=1)
    first, second = engine.submit([1], 3), engine.submit([2], 3)
    compute, engine.compute = engine.compute, lambda work: 1 / 0
    with pytest.raises(ZeroDivisionError):
        engine.step()
    assert (first.reason, second.state, engine.pages_used) == ("error", WAITING, 0)
    engine.compute = compute
    run(engine)
    assert second.reply == expected([2], 3)


@each_of("seed", range(12))
def test_random_requests_and_disconnects_leave_no_page_and_change_no_reply(seed):
    coin = random.Random(seed)
    engine = engine_of(
        pages=coin.choice((10, 14, 30)),
        page_size=coin.choice((1, 3, 4)),
        max_batch=coin.choice((1, 3, 6)),
        budget=coin.choice((6, 16)),
        queue=coin.choice((2, 8)),
        share_prefixes=coin.random() < 0.8,
    )
    room = min(40, engine.limits.pages * engine.limits.page_size)
    prefixes = [[coin.randrange(50) for _ in range(room // 3)] for _ in range(3)]
    accepted, refused = [], 0
    while len(accepted) < 60 or engine.busy:
        if len(accepted) < 60 and coin.random() < 0.6:
            prompt = coin.choice(prefixes)[: coin.randint(0, room // 3)] + [
                coin.randrange(50) for _ in range(coin.randint(1, 5))
            ]
            try:
                accepted.append(engine.submit(prompt, coin.randint(1, room - len(prompt))))
            except Overloaded:
                refused += 1
        if coin.random() < 0.1 and (alive := [each for each in accepted if each.state != FINISHED]):
            engine.cancel(coin.choice(alive))
        step = engine.step()
        if step is not None:
            assert step.running <= engine.limits.max_batch and step.prompt_tokens + step.decodes <= engine.limits.budget
            assert engine.pool.free_pages + sum(count > 0 for count in engine.pool.counts) == engine.limits.pages
    for each in accepted:
        assert each.reply == expected(each.prompt, len(each.reply))
        assert (each.reason == "length") == (len(each.reply) == each.max_tokens)
    assert engine.pages_used == 0 and engine.ended.total() == len(accepted) + refused
    assert sorted(engine.pool.free) == list(range(engine.limits.pages))


def test_free_pages_keep_their_content_until_the_last_and_the_end_of_a_prefix_goes_first():
    pool = PrefixPool(5, 2)
    pool.add("a", 6)
    pool.publish("a", [1, 2, 3, 4, 5, 6])
    pages = pool.table("a")
    pool.release("a")
    assert (pool.free_pages, len(pool.kept_pages)) == (5, 3)
    pool.add("b", 4)  # the two pages without content
    assert pool.match([1, 2, 3, 4, 5, 6, 7]) == pages
    pool.add("c", 1)
    assert pool.match([1, 2, 3, 4, 5, 6, 7]) == pages[:2], "a prefix without its end is still of use"
    assert pool.match([1, 2, 3]) == pages[:1] and pool.match([1, 2]) == () and pool.match([2, 2, 3]) == ()


# --- with the model -------------------------------------------------------------------------------


def test_replies_under_preemption_sharing_and_disconnects_are_those_of_the_uncached_model():
    model = transformer.build(Config(hidden=32, heads=4, kv_heads=2, seq_len=40), seed=1).double()
    engine = Engine(limits := replace(LIMITS, pages=14), PagedModel(model, limits))
    coin, accepted = random.Random(4), []
    prefix = [coin.randrange(64) for _ in range(9)]
    for number in range(24):
        prompt = prefix[: coin.randint(0, 9)] + [coin.randrange(64) for _ in range(coin.randint(1, 6))]
        accepted.append(engine.submit(prompt, coin.randint(5, 20)))
        for _ in range(coin.randrange(6)):
            engine.step()
        if number % 5 == 4:
            engine.cancel(accepted[number - 2])
    run(engine)
    assert engine.preemptions and any(each.shared for each in accepted)
    for each in accepted:
        assert each.reply == generate(model, each.prompt, each.max_tokens, "none")[: len(each.reply)]


def test_a_drawn_token_follows_the_softmax_and_its_seed_alone():
    logits = torch.tensor([1.0, 0.0, -1.0, 2.0])
    wanted = (logits / 0.7).double().softmax(-1)
    counts = Counter(draw(logits, Sampling(0.7, seed), position) for seed in range(40) for position in range(100))
    for token, share in enumerate(wanted.tolist()):
        assert abs(counts[token] / 4000 - share) < 4 * (share * (1 - share) / 4000) ** 0.5
    assert draw(logits, Sampling(0.7, 3), 5) == draw(logits.clone(), Sampling(0.7, 3), 5)


def test_a_sampled_reply_does_not_depend_on_the_batch():
    model = transformer.build(Config(hidden=32, heads=4, seq_len=40), seed=2).double()

    def replies(together, pages):
        engine = Engine(limits := replace(LIMITS, pages=pages), PagedModel(model, limits, vocabulary=50))
        found = []
        for seed in range(4):
            found.append(engine.submit([seed, 3], 15, extra=Sampling(1.0, seed)))
            if not together:
                run(engine)
        run(engine)
        return [each.reply for each in found], engine.preemptions

    (alone, _), (batched, preemptions) = replies(False, 12), replies(True, 8)
    assert alone == batched and preemptions and max(map(max, alone)) < 50


@each_of(
    "changes, says",
    ({"pages": 0}, "pages is 0"),
    ({"queue": -1}, "queue is -1"),
    ({"budget": 3}, "budget is 3 tokens an iteration, less than"),
)
def test_limits_that_cannot_work_are_refused(changes, says):
    with pytest.raises(ValueError, match=says):
        replace(LIMITS, **changes)
