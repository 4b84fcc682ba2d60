from course_chapters.ch07.exercises.judges import hooks
from course_grader.judging import Case, Judging, Outcome, Params, Random, Verdict, Worked, hidden, shown, under
from course_grader.judging.ranks import UNKIND
from course_lib.estimate.units import count_text
from course_lib.parallel.data import buckets_of

BIG = 4 * hooks.WIDE**2


def _cases(params: Params, rng: Random) -> list[Case]:
    data, models = hooks.data_of(params, rng), "generality:models"
    layer = 4 * (params["width"] ** 2 + params["width"])
    cases = [
        shown("four ranks, two buckets and a smaller one", "values:gradients", per_rank=data(4, 2 * layer, layers=5)),
        hidden("three ranks, other data", "values:gradients", per_rank=data(3, layer + 40, layers=4)),
        hooks.timed(data, 2 * BIG, biases=False),
        hidden("one rank alone", "generality:ranks", per_rank=data(1, layer)),
        hidden("nine ranks, three steps", "generality:ranks", per_rank=data(9, layer, steps=3, layers=2)),
        hidden("one bucket holds everything", models, per_rank=data(3, 100 * layer)),
        hidden("every parameter is larger than a bucket", models, per_rank=data(2, 4)),
        hidden(
            "every second layer is frozen", models, per_rank=data(3, 2 * layer, layers=7, frozen=(1, 3, 5), steps=1)
        ),
        hidden("first and last layer share their weights", models, per_rank=data(3, 2 * layer, tied=True, frozen=(1,))),
        hidden("float32 and float64 side by side", models, per_rank=data(2, 3 * layer, layers=4, dtypes=hooks.MIXED)),
        hidden("zeroed gradients, and weights larger than a bucket", models, per_rank=data(2, 100, zeroed=True)),
        hidden(hooks.MANY, "generality:steps", per_rank=data(2, layer, steps=hooks.STEPS, layers=2, counted=True)),
        hidden("gradients in another order on odd ranks", "protocol:one-order", per_rank=data(4, layer, branches=True)),
    ]
    return cases + under(UNKIND, "three ranks", "protocol:in-flight", lambda: data(3, layer, layers=2))


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    _, (nbytes,), _ = (case.per_rank or ())[0]
    buckets = buckets_of(reversed(hooks.trained_model(case)), nbytes)
    hint = f"Packed from the last parameter to the first, all gradients fit {count_text(len(buckets), 'bucket')}."
    return hooks.verdicts_of(Worked("ddp-buckets"), case, outcome, buckets, hint, exactly=True)


JUDGING = Judging(
    point=("cost:overlap",),
    shares="values:gradients 0.2, cost:overlap 0.25, cost:once 0.15, protocol:in-flight 0.05, "
    "protocol:one-order 0.1, generality:ranks 0.05, generality:steps 0.05, generality:models 0.15",
    measured_by_worker=("cost:overlap",),
    cases=_cases,
    verdicts=_verdicts,
    why="A bucket pays one latency for many parameters and leaves when its last gradient is complete, so gradients "
    "that complete one after another belong together. Collectives are matched by order, not by content: if a rank "
    "sends whatever is ready first, its numbers are added to other parameters' numbers.",
    pytorch="`DistributedDataParallel(bucket_cap_mb=25)`; its first bucket is small, so that communication "
    "starts early.",
)

ANSWERS = r'''# %% right: worked
def bucket_gradients(comm, model, bucket_bytes):
    """Return `finish`, as `hook_gradients` does; sends gradients in buckets of at most `bucket_bytes` bytes."""
    buckets, room = [], 0
    for each in reversed([p for p in model.parameters() if p.requires_grad]):
        if not buckets or each.nbytes > room or each.dtype != buckets[-1][0].dtype:
            buckets.append([])
            room = bucket_bytes
        buckets[-1].append(each)
        room -= each.nbytes
    home = {p: number for number, bucket in enumerate(buckets) for p in bucket}
    missing = [len(bucket) for bucket in buckets]
    works = []

    def arrived(parameter):
        missing[home[parameter]] -= 1
        while len(works) < len(buckets) and not missing[len(works)]:
            flat = torch.cat([p.grad.reshape(-1) / comm.size for p in buckets[len(works)]])
            works.append((flat, comm.all_reduce(flat, async_op=True)))

    def finish():
        for bucket, (flat, work) in zip(buckets, works, strict=True):
            work.wait()
            for p, part in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
                p.grad.copy_(part.view_as(p))
        works.clear()
        missing[:] = [len(bucket) for bucket in buckets]

    for parameter in home:
        parameter.register_post_accumulate_grad_hook(arrived)
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
# %% wrong: one all-reduce per parameter => cost too-many-collectives
# ~ room = bucket_bytes ==> room = 0
# %% wrong: packed from the first to the last => cost not-hidden
# ~ reversed([p for p in model.parameters() if p.requires_grad]) ==> [p for p in model.parameters() if p.requires_grad]
# %% wrong: one bucket for all => cost not-hidden
# ~ if not buckets or each.nbytes > room or each.dtype != buckets[-1][0].dtype: ==> if not buckets:
# %% wrong: the last bucket never leaves => values other-numbers
# ~ len(works) < len(buckets) and ==> len(works) < len(buckets) - 1 and
# ~ zip(buckets, works, strict=True) ==> zip(buckets, works)
# %% wrong: sums => values sum
# > these are the sums over the ranks, not the means: nothing divided them.
# ~ p.grad.reshape(-1) / comm.size ==> p.grad.reshape(-1)
# %% wrong: divides before and averages => values divided-twice
# > these are the means, divided by the number of ranks once more.
# ~ async_op ==> op="AVG", async_op
# %% wrong: what is complete leaves at once => protocol out-of-order
# > a bucket leaves as soon as it is complete, so where gradients come in another order, ranks add up different buckets.
# -         while len(works) < len(buckets) and not missing[len(works)]:
# -             flat = torch.cat([p.grad.reshape(-1) / comm.size for p in buckets[len(works)]])
# -             works.append((flat, comm.all_reduce(flat, async_op=True)))
# +         if not missing[home[parameter]]:
# +             bucket = buckets[home[parameter]]
# +             flat = torch.cat([p.grad.reshape(-1) / comm.size for p in bucket])
# +             works.append((bucket, flat, comm.all_reduce(flat, async_op=True)))
# ~ for bucket, (flat, work) in zip(buckets, works, strict=True): ==> for bucket, flat, work in works:
# %% wrong: dtypes mixed in one bucket => cost too-many-bytes
# ~ each.nbytes > room or each.dtype != buckets[-1][0].dtype ==> each.nbytes > room
# %% wrong: not made new for the next step => values raised
# ~ not missing[len(works)] ==> missing[len(works)] <= 0
# -         missing[:] = [len(bucket) for bucket in buckets]
# %% wrong: the averages stay in the bucket => values own-gradient
# > these are the rank's own gradients: the averages were not copied back, or nothing was averaged.
# ~ p.grad.copy_(part.view_as(p)) ==> pass
# %% wrong: copies back before the wait => values own-divided
# > this is the rank's own gradient divided by the number of ranks; the other ranks' gradients are missing.
# ~ work.wait() ==> pass
#                   p.grad.copy_(part.view_as(p))
# +             work.wait()
# %% wrong: fills beyond the limit => cost too-few-collectives
# ~ each.nbytes > room ==> room <= 0
# %% wrong: buckets leave after the backward pass => cost not-hidden
#       def finish():
# +         for p in home:
# +             arrived(p)
# ~ parameter.register_post_accumulate_grad_hook(arrived) ==> pass
# %% wrong: each bucket is waited for in its hook => cost not-hidden
#               works.append((flat, comm.all_reduce(flat, async_op=True)))
# +             works[-1][1].wait()
# %% wrong: every handle ever made is kept => generality handles-kept
# ~ works = [] ==> works, kept = [], []
#                   p.grad.copy_(part.view_as(p))
# +         kept.extend(works)
# %% wrong: frozen parameters take room => cost too-many-collectives
# ~ reversed([p for p in model.parameters() if p.requires_grad]) ==> reversed(list(model.parameters()))
#           room -= each.nbytes
# +     buckets = [[p for p in bucket if p.requires_grad] for bucket in buckets]
# %% half: what is complete leaves at once => 10.8  from: what is complete leaves at once
'''
