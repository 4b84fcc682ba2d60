"""Judge of ddp-buckets: buckets, last layer first."""

from __future__ import annotations

import random

from course_lib.data_parallel import buckets_of
from course_lib.exercises.ch07.judges.hooks import MANY, MIXED, STEPS, WIDE, data_of, timed, trained_model, verdicts_of
from course_lib.judging import Judging, Params
from course_lib.judging.cases import hidden, shown, under
from course_lib.judging.ranks import UNKIND
from course_lib.records import Case, Outcome, Verdict

BIG = WIDE * WIDE * 4


def _bucket_cases(params: Params, rng: random.Random) -> list[Case]:
    data, models = data_of(params, rng), "generality:models"
    layer = 4 * (params["width"] ** 2 + params["width"])
    cases = [
        shown("four ranks, two buckets and a smaller one", "values:gradients", per_rank=data(4, 2 * layer, layers=5)),
        hidden("three ranks, other data", "values:gradients", per_rank=data(3, layer + 40, layers=4)),
        timed(data, 2 * BIG),
        hidden("one rank alone", "generality:ranks", per_rank=data(1, layer)),
        hidden("nine ranks, three steps", "generality:ranks", per_rank=data(9, layer, steps=3, layers=2)),
        hidden("one bucket holds everything", models, per_rank=data(3, 100 * layer)),
        hidden("every parameter is larger than a bucket", models, per_rank=data(2, 4)),
        hidden(
            "every second layer is frozen", models, per_rank=data(3, 2 * layer, layers=7, frozen=(1, 3, 5), steps=1)
        ),
        hidden("first and last layer share their weights", models, per_rank=data(3, 2 * layer, tied=True, frozen=(1,))),
        hidden("float32 and float64 side by side", models, per_rank=data(2, 3 * layer, layers=4, dtypes=MIXED)),
        hidden("zeroed gradients, and weights larger than a bucket", models, per_rank=data(2, 100, zeroed=True)),
        hidden(MANY, "generality:steps", per_rank=data(2, layer, steps=STEPS, layers=2, counted=True)),
        hidden("gradients in another order on odd ranks", "protocol:one-order", per_rank=data(4, layer, branches=True)),
    ]
    return cases + under(UNKIND, "three ranks", "protocol:in-flight", lambda: data(3, layer, layers=2))


def _bucket_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    spec, (nbytes,), _ = (case.per_rank or ())[0]
    buckets = buckets_of(reversed(trained_model(spec)), nbytes)
    hint = f"Packed from the last parameter to the first, {len(buckets)} bucket(s) per step are enough."
    return verdicts_of(case, outcome, buckets, hint, exactly=True)


JUDGING = Judging(
    point=("cost:overlap",),
    shares="values:gradients 0.2, cost:overlap 0.25, cost:once 0.15, protocol:in-flight 0.05, "
    "protocol:one-order 0.1, generality:ranks 0.05, generality:steps 0.05, generality:models 0.15",
    measured_by_worker=("cost:overlap",),
    cases=_bucket_cases,
    verdicts=_bucket_verdicts,
    why="A bucket pays one latency for many parameters and leaves when its last gradient is complete, so gradients that complete one "
    "after another belong together. Collectives are matched by order, not by content: if a rank sends whatever is ready first, "
    "its numbers are added to other parameters' numbers.",
    pytorch="`DistributedDataParallel(bucket_cap_mb=25)`; its first bucket is small, so that communication starts early.",
)

ANSWERS = r'''import torch


def packed(model, bucket_bytes, order=reversed, mixed=False, beyond=False):
    """Buckets from the last parameter to the first; the options are mistakes that wrong answers make."""
    buckets, room = [], 0
    for p in order([p for p in model.parameters() if p.requires_grad]):
        full = room <= 0 if beyond else p.nbytes > room
        if not buckets or full or (not mixed and p.dtype != buckets[-1][0].dtype):
            buckets.append([])
            room = bucket_bytes
        buckets[-1].append(p)
        room -= p.nbytes
    return buckets


# %% right: a queue of buckets
def bucket_gradients(comm, model, bucket_bytes):
    buckets = packed(model, bucket_bytes)
    home = {p: number for number, bucket in enumerate(buckets) for p in bucket}
    missing = [len(bucket) for bucket in buckets]
    works = []

    def hook(p):
        missing[home[p]] -= 1
        while len(works) < len(buckets) and not missing[len(works)]:
            flat = torch.cat([each.grad.reshape(-1) / comm.size for each in buckets[len(works)]])
            works.append((flat, comm.all_reduce(flat, async_op=True)))

    for p in home:
        p.register_post_accumulate_grad_hook(hook)

    def finish():
        for bucket, (flat, work) in zip(buckets, works):
            work.wait()
            for p, part in zip(bucket, flat.split([p.numel() for p in bucket])):
                p.grad.copy_(part.view_as(p))
        works.clear()
        missing[:] = [len(bucket) for bucket in buckets]

    return finish


# %% right: gradients are views of the buckets
class Buckets:
    def __init__(self, comm, model, room):
        self.comm, self.groups, left = comm, [], 0
        for p in list(model.parameters())[::-1]:
            if not p.requires_grad:
                continue
            if p.nbytes > left or not self.groups or self.groups[-1][-1].dtype is not p.dtype:
                self.groups.append([])
                left = room
            self.groups[-1].append(p)
            left -= p.nbytes
        self.flats = [torch.zeros(sum(p.numel() for p in g), dtype=g[0].dtype) for g in self.groups]
        for group in self.groups:
            for p in group:
                p.register_post_accumulate_grad_hook(self.arrived)
        self.reset()

    def reset(self):
        self.waiting = [{id(p) for p in g} for g in self.groups]
        self.next, self.works = 0, []

    def arrived(self, p):
        for waiting in self.waiting:
            waiting.discard(id(p))
        while self.next < len(self.groups) and not self.waiting[self.next]:
            group, flat, at = self.groups[self.next], self.flats[self.next], 0
            for each in group:
                view = flat[at : at + each.numel()].view_as(each)
                view.copy_(each.grad)
                each.grad = view
                at += each.numel()
            self.works.append(self.comm.all_reduce(flat, op="AVG", async_op=True))
            self.next += 1

    def finish(self):
        for work in self.works:
            work.wait()
        self.reset()


def bucket_gradients(comm, model, bucket_bytes):
    return Buckets(comm, model, bucket_bytes).finish


# %% wrong: one all-reduce per parameter => cost too-many-collectives  from: a queue of buckets
# ~ packed(model, bucket_bytes) ==> packed(model, 1)

# %% wrong: packed from the first to the last => cost not-hidden  from: a queue of buckets
# ~ packed(model, bucket_bytes) ==> packed(model, bucket_bytes, order=list)

# %% wrong: one bucket for all => cost -  from: a queue of buckets
# ~ packed(model, bucket_bytes) ==> [sum(packed(model, bucket_bytes), [])]

# %% wrong: the last bucket never leaves => values -  from: a queue of buckets
# ~ (buckets) and not missing ==> (buckets) - 1 and not missing

# %% wrong: what is complete leaves at once => protocol other-numbers  from: a queue of buckets
# -         while len(works) < len(buckets) and not missing[len(works)]:
# -             flat = torch.cat([each.grad.reshape(-1) / comm.size for each in buckets[len(works)]])
# -             works.append((flat, comm.all_reduce(flat, async_op=True)))
# +         if not missing[home[p]]:
# +             bucket = buckets[home[p]]
# +             flat = torch.cat([each.grad.reshape(-1) / comm.size for each in bucket])
# +             works.append((bucket, flat, comm.all_reduce(flat, async_op=True)))
# ~ (flat, work) in zip(buckets, works) ==> flat, work in works

# %% wrong: dtypes mixed in one bucket => cost too-many-bytes  from: a queue of buckets
# ~ packed(model, bucket_bytes) ==> packed(model, bucket_bytes, mixed=True)

# %% wrong: not made new for the next step => values -  from: a queue of buckets
# ~ not missing[len(works)] ==> missing[len(works)] <= 0
# -         missing[:] = [len(bucket) for bucket in buckets]

# %% wrong: the averages stay in the bucket => values own-gradient  from: a queue of buckets
# -             for p, part in zip(bucket, flat.split([p.numel() for p in bucket])):
# -                 p.grad.copy_(part.view_as(p))

# %% wrong: copies back before the wait => values own-divided  from: a queue of buckets
# ~ work.wait() ==> pass
#                   p.grad.copy_(part.view_as(p))
# +             work.wait()

# %% wrong: fills beyond the limit => cost too-few-collectives  from: a queue of buckets
# ~ packed(model, bucket_bytes) ==> packed(model, bucket_bytes, beyond=True)

# %% wrong: buckets leave after the backward pass => cost not-hidden  from: a queue of buckets
# -     for p in home:
# -         p.register_post_accumulate_grad_hook(hook)
#       def finish():
# +         for p in home:
# +             hook(p)

# %% wrong: each bucket is waited for in its hook => cost not-hidden  from: a queue of buckets
#               works.append((flat, comm.all_reduce(flat, async_op=True)))
# +             works[-1][1].wait()

# %% half: what is complete leaves at once => 10.8  from: what is complete leaves at once

# %% wrong: every handle ever made is kept => generality handles-kept  from: a queue of buckets
# ~ works = [] ==> works, kept = [], []
#                   p.grad.copy_(part.view_as(p))
# +         kept.extend(works)

# %% wrong: frozen parameters take room => cost too-many-collectives  from: a queue of buckets
# -     buckets = packed(model, bucket_bytes)
# +     frozen = [p.requires_grad_() for p in model.parameters() if not p.requires_grad]
# +     buckets = packed(model, bucket_bytes)
# +     frozen = [id(p.requires_grad_(False)) for p in frozen]
# +     buckets = [[p for p in bucket if id(p) not in frozen] for bucket in buckets]
'''
