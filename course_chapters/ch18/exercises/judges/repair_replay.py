import random
from collections.abc import Mapping

import torch
from torch import Tensor

from course_chapters.ch18.exercises.repair_replay import STEPS
from course_grader.judging import Fault, Judging, Params, Worked, describe, first
from course_grader.judging.cases import hidden, shown
from course_grader.judging.oracles import oracle
from course_grader.judging.tensors import same_tensors, tensor_fault
from course_grader.records import Case, Outcome
from course_lib.messages import count_text

right = Worked("repair-replay")


def _key(batch: Mapping[str, Tensor]) -> tuple[tuple[object, ...], ...]:
    return tuple(sorted((name, str(each.shape), str(each.dtype)) for name, each in batch.items()))


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin = torch.Generator().manual_seed(rng.randrange(2**31))

    def batch(*names: str, rows: int = params["rows"], dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
        return {name: torch.randn(rows, 4, generator=coin).to(dtype) for name in names}

    mixed = [batch("x", "scale"), batch("x", "scale", rows=7), batch("x", "scale"), batch("x", "scale", rows=7)]
    kinds = [batch("x"), batch("x", dtype=torch.float64), batch("x"), batch("x", "z"), batch("x", dtype=torch.float64)]
    return [
        shown("no name is bound anew", "values:plain", "plain", [batch("x") for _ in range(3)]),
        shown("a result under the name of an input", "values:bound", "recurrent", [batch("x", "h") for _ in range(4)]),
        hidden("bound anew twice, and two shapes", "generality:shapes", "twice", mixed),
        hidden("two dtypes, and an input that nothing reads", "generality:shapes", "plain", kinds),
    ]


def _eager(case: Case) -> list[dict[str, Tensor]]:
    name, batches = case.args
    found = [dict(batch) for batch in batches]
    for each in found:
        STEPS[name](each)
    return found


def _values_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    seen, wants = outcome.value, _eager(case)
    if {len(wants)} != {len(seen["found"]), len(seen["given"])}:
        return "wrong-shape", f"{case.name}: expected a dictionary of tensors for each batch; got {describe(seen)}."
    for call, (got, want) in enumerate(zip(seen["found"], wants, strict=True), 1):
        where = f"{case.name}, batch {call}"
        if type(got) is not dict or got.keys() != want.keys():
            return "wrong-names", f"{where}: expected a dictionary with {', '.join(want)}; got {describe(got)}."
        if fault := first(*(tensor_fault(f"{where}, {name}", got[name], want[name]) for name in want)):
            return fault
    pairs = zip(seen["given"], case.args[1], strict=True)
    if not all(mine.keys() == given.keys() and same_tensors(mine, given) for mine, given in pairs):
        return "batch-changed", f"{case.name}: a batch of the caller was changed."
    return None


def _cost_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    captures, steps = outcome.value["captures"], outcome.value["steps"]
    kinds = len({_key(batch) for batch in case.args[1]})
    counted = count_text(captures, "capture")
    if captures > kinds:
        return "captured-again", f"{case.name}: {counted} for {count_text(kinds, 'kind')} of batches."
    if steps > captures:
        ran = f"the step's Python ran {count_text(steps, 'time')} in {counted}"
        return "not-replayed", f"{case.name}: {ran}; one run in each capture is enough, replays do the rest."
    return None


JUDGING = Judging(
    shares="values:plain 0.05, values:bound 0.25, cost:replays 0.4, generality:shapes 0.3",
    cases=_cases,
    verdicts=oracle(_values_fault, {"cost:replays": _cost_fault}),
    why="Captured kernels read and write fixed memory. A dictionary is only names: when the step binds a name anew, "
    "the name leaves the memory that the kernels read, and later inputs go to memory that no kernel reads. So the "
    "graph's inputs are kept apart from the step's dictionary, and the caller gets copies, because the next replay "
    "writes over the graph's results.",
    pytorch='`torch.cuda.make_graphed_callables` and `torch.compile(mode="reduce-overhead")` copy inputs in for you; '
    "their outputs are overwritten by the next replay, too.",
)

ANSWERS = r'''# %% right: worked
def replayed(step, Graph):
    """A function that runs `step` on a batch by replaying a graph of it."""
    ### BEGIN SOLUTION
    graphs = {}

    def run(batch: dict) -> dict:
        key = frozenset((name, each.shape, each.dtype) for name, each in batch.items())
        if key not in graphs:
            own = {name: each.clone() for name, each in batch.items()}
            out = dict(own)
            with Graph() as graph:
                step(out)
            graphs[key] = graph, own, out
        graph, own, out = graphs[key]
        for name, each in batch.items():
            own[name].copy_(each)
        graph.replay()
        return {name: each.clone() for name, each in out.items()}

    return run
    ### END SOLUTION

# %% right: in two passes
# ~ own = {name: each.clone() for ==> own = {name: each + 0 for
# ~ out = dict(own) ==> out = {**own}
# ~ each.clone() for name, each in out.items() ==> out[name] + 0 for name in out
# %% wrong: as given => values
# > the caller's own dictionary was captured, and later batches were copied into what it holds.
# -             own = {name: each.clone() for name, each in batch.items()}
# -             out = dict(own)
# +             own = out = batch
# -         return {name: each.clone() for name, each in out.items()}
# +         return out
# %% wrong: the step's dictionary holds the inputs => values
# > the step bound the name of an input anew, and later inputs were copied into its result.
# ~ out = dict(own) ==> out = own
# %% wrong: the caller's tensors are the graph's => values
# > the graph's inputs are tensors of the caller, and the next batch was copied into them.
# ~ own = {name: each.clone() for name, each in batch.items()} ==> own = dict(batch)
# %% wrong: the graph's own results => values
# > a later call wrote over a result that was already handed out.
# ~ {name: each.clone() for name, each in out.items()} ==> dict(out)
# %% wrong: inputs not copied in => values
# > the graph still has the inputs of its capture.
# ~ own[name].copy_(each) ==> pass
# %% wrong: a capture for each batch => cost captured-again
# ~ if key not in graphs: ==> if True:
# %% wrong: never replayed => cost not-replayed
# ~ graph.replay() ==> out = dict(batch)
# ~ return {name: each.clone() for name, each in out.items()} ==> step(out); return out
# %% wrong: shapes alone => generality
# > batches of two dtypes share a graph, so one of them is computed in the other's dtype.
# ~ (name, each.shape, each.dtype) ==> (name, each.shape)
# %% wrong: left as it is => not-answered
# ~ graphs = {} ==> raise NotImplementedError
'''
