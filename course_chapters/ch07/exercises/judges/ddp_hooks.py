from course_chapters.ch07.exercises.judges.hooks import MANY, MIXED, STEPS, data_of, timed, trained_model, verdicts_of
from course_grader.judging import Case, Judging, Outcome, Params, Random, Verdict, Worked, hidden, shown, under
from course_grader.judging.ranks import UNKIND


def _cases(params: Params, rng: Random) -> list[Case]:
    data, models = data_of(params, rng), "generality:models"
    cases = [
        shown("four ranks", "values:gradients", per_rank=data(4)),
        hidden("three ranks, other data", "values:gradients", per_rank=data(3, layers=2)),
        timed(data, biases=True),
        hidden("one rank alone", "generality:ranks", per_rank=data(1)),
        hidden("nine ranks, three steps", "generality:ranks", per_rank=data(9, steps=3, layers=2)),
        hidden("frozen layers and two dtypes", models, per_rank=data(3, layers=4, frozen=(0, 2), dtypes=MIXED)),
        hidden("first and last layer share their weights", models, per_rank=data(3, tied=True, frozen=(1,))),
        hidden("zeroed, not set to None", models, per_rank=data(2, zeroed=True, steps=3, layers=4, frozen=(1,))),
        hidden(MANY, "generality:steps", per_rank=data(2, steps=STEPS, layers=2, counted=True)),
    ]
    return cases + under(UNKIND, "three ranks", "protocol:in-flight", lambda: data(3, layers=2))


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    buckets = [[parameter] for parameter in reversed(trained_model(case))]
    hint = "One per trained parameter and step; a shared parameter counts once."
    return verdicts_of(Worked("ddp-hooks"), case, outcome, buckets, hint, exactly=False)


JUDGING = Judging(
    point=("cost:overlap",),
    shares="values:gradients 0.25, cost:overlap 0.25, cost:once 0.15, protocol:in-flight 0.1, "
    "generality:ranks 0.05, generality:steps 0.05, generality:models 0.15",
    measured_by_worker=("cost:overlap",),
    cases=_cases,
    verdicts=_verdicts,
    why="A complete gradient no longer changes in this backward pass, so its all-reduce can start at once and run "
    "while earlier layers are still computing. Only the first layer's gradient, which is complete last, has "
    "nothing left to hide it.",
    pytorch="`DistributedDataParallel` does this in its reducer, in buckets; `register_post_accumulate_grad_hook` is "
    "the public hook.",
)

ANSWERS = r'''# %% right: worked
def hook_gradients(comm, model):
    """Return `finish`, a function without arguments that waits until every gradient is the mean over ranks."""
    works = []

    def started(parameter):
        parameter.grad /= comm.size
        works.append(comm.all_reduce(parameter.grad, async_op=True))

    def finish():
        for work in works:
            work.wait()
        works.clear()

    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(started)
    return finish
# %% right: hooks on the nodes that add the gradients up
def hook_gradients(comm, model):
    flying, nodes = [], []

    def hooked(p):
        def hook(*_):
            p.grad.mul_(1 / comm.size)
            flying.append(comm.all_reduce(p.grad, async_op=True))

        return hook

    for p in model.parameters():
        if p.requires_grad:
            nodes.append(p.expand_as(p).grad_fn.next_functions[0][0])
            nodes[-1].register_hook(hooked(p))

    def finish():
        assert nodes  # they live as long as somebody knows them
        [work.wait() for work in flying]
        del flying[:]

    return finish
# %% right: a barrier in finish
#           works.clear()
# +         comm.barrier()
# %% right: scaled by a tensor hook, reduced by the other
# -         parameter.grad /= comm.size
#           if parameter.requires_grad:
# +             parameter.register_hook(lambda grad: grad / comm.size)
# %% right: waits for the one before last in the hook
#           works.append(comm.all_reduce(parameter.grad, async_op=True))
# +         if len(works) > 2:
# +             works[-3].wait()
# %% wrong: all after the backward pass => cost not-hidden
#       def finish():
# +         for parameter in model.parameters():
# +             if parameter.requires_grad:
# +                 started(parameter)
# ~ parameter.register_post_accumulate_grad_hook(started) ==> pass
# %% wrong: each hook waits => cost not-hidden
# ~ works.append(comm.all_reduce(parameter.grad, async_op=True)) ==> comm.all_reduce(parameter.grad)
# %% wrong: each hook waits for the one before => cost not-hidden
#           works.append(comm.all_reduce(parameter.grad, async_op=True))
# +         if len(works) > 1:
# +             works[-2].wait()
# %% wrong: sums => values sum
# > these are the sums over the ranks, not the means: nothing divided them, or a division in flight was overwritten by
# > the sum.
# -         parameter.grad /= comm.size
# %% wrong: divides before and averages => values divided-twice
# > these are the means, divided by the number of ranks once more.
# ~ async_op ==> op="AVG", async_op
# %% wrong: divides while it is under way => values ~
#       def started(parameter):
# +         works.append(comm.all_reduce(parameter.grad, async_op=True))
# -         works.append(comm.all_reduce(parameter.grad, async_op=True))
# %% wrong: frozen parameters get hooks too => generality raised
# ~ if parameter.requires_grad: ==> if True:
# %% wrong: a shared layer's weights leave twice => generality
# > weights that two layers share were averaged once for each of these; once is enough.
# ~ parameter in model.parameters() ==> _, parameter in model.named_parameters(remove_duplicate=False)
# %% wrong: returns nothing => values no-finish  from: each hook waits
# ~ return finish ==> return
# %% wrong: averages twice, again in finish => cost not-hidden
#           works.clear()
# +         for parameter in model.parameters():
# +             if parameter.grad is not None:
# +                 comm.all_reduce(parameter.grad, op="AVG")
# %% wrong: the first step only => values left-over
# ~ works = [] ==> works, seen = [], set()
#       def started(parameter):
# +         if parameter in seen:
# +             return
# +         seen.add(parameter)
# %% wrong: no time passes => cost skipped  from: all after the backward pass
#   def hook_gradients(comm, model):
# +     model._seconds = 0.0
# %% wrong: half precision => values rounded
# ~ parameter.grad /= comm.size ==> half = (parameter.grad / comm.size).bfloat16()
# ~ comm.all_reduce(parameter.grad, async_op=True) ==> (parameter, half, comm.all_reduce(half, async_op=True))
# ~ for work in works: ==> for parameter, half, work in works:
#               work.wait()
# +             parameter.grad = half.float()
# %% wrong: all_gather in hooks => cost too-many-bytes  from: half precision
# ~ half = (parameter.grad / comm.size).bfloat16() ==> into = [torch.empty_like(parameter) for _ in range(comm.size)]
# ~ half, comm.all_reduce(half, async_op=True) ==> into, comm.all_gather(into, parameter.grad, async_op=True)
# ~ half, work ==> into, work
# ~ half.float() ==> sum(into) / comm.size
# %% wrong: broadcasts the weights before => cost one-root
#       works = []
# +     for parameter in model.parameters():
# +         comm.broadcast(parameter.data, src=0)
# %% wrong: is_completed in place of wait => values own-divided
# > this is the rank's own gradient divided by the number of ranks; the other ranks' gradients are missing.
# ~ work.wait() ==> work.is_completed()
# %% wrong: waits for the last only => protocol in-flight
# ~ for work in works: ==> for work in works[-1:]:
# %% wrong: no hook at all => values own-gradient
# > these are the rank's own gradients; nothing was averaged.
# ~ parameter.register_post_accumulate_grad_hook(started) ==> pass
# %% wrong: replaces the gradients of all by rank 0's => values rank-0s-gradient
# > these are rank 0's gradients on every rank; nothing was averaged.
# -         parameter.grad /= comm.size
# -         works.append(comm.all_reduce(parameter.grad, async_op=True))
# +         works.append(comm.broadcast(parameter.grad, src=0, async_op=True))
# %% wrong: switches frozen ones on => generality frozen-touched
# ~ model.parameters() ==> model.requires_grad_().parameters()
# %% wrong: every handle ever made is kept => generality handles-kept
# -         works.clear()
# %% wrong: fp32 sums for all => generality other-numbers
# ~ if parameter.requires_grad: ==> if parameter.requires_grad and parameter.dtype == torch.float32:
# %% half: right and never hidden => 6  from: each hook waits
'''
