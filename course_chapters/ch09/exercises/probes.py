"""How chapter 09 calls answers: with this rank's pieces of secret weights, and the results of both passes as plain
data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from course_grader.exercises.probes import or_refusal, rows
from course_grader.exercises.result_schema import Anything, DictOf, ListOf, Maybe, Number, PerRank, Tensor, TupleOf

if TYPE_CHECKING:
    import torch

    from course_grader.records import Answer, Case
    from course_lib.cluster import Comm

FORWARD = "forward only"
TURNED = "turned"  # activations and gradients in another layout in memory
MEASURED = "measured"  # the most bytes alive are returned as well
WEIGHED = "weighed"  # large data are built here from small ones, and only some places of the results are returned

PIECE = TupleOf({"the piece": Tensor(), "its memory": Maybe(Number("bytes"))})
OPERATOR = PerRank(DictOf({"out": Tensor(), "grad": Maybe(Tensor()), "touched": Anything()}))
BOTH_PASSES = PerRank(DictOf({"y": Tensor(), "grads": DictOf({}, more=True), "touched": ListOf(Anything())}, more=True))
LARGE_LOSS = PerRank(DictOf({"y": Tensor(), "grad": Tensor()}))
OVERLAPPED = PerRank(
    DictOf({"got": TupleOf({"dx": Tensor(), "dw": Tensor()}), "products": Number(), "touched": ListOf(Anything())})
)
STREAMS = ListOf(
    TupleOf({"outside": ListOf(Number()), "inside": ListOf(Number()), "one generator": Anything(), "moved": Anything()})
)


def as_leaf(value: torch.Tensor, turned: bool = False) -> torch.Tensor:
    """A tensor that autograd watches, with the same numbers; `turned` puts them elsewhere in memory."""
    import torch

    if turned and value.ndim > 1:
        value = value.transpose(0, 1).contiguous().transpose(0, 1)
    return value.clone(memory_format=torch.preserve_format).requires_grad_(value.is_floating_point())


def cut(answers: tuple[Answer, ...], case: Case, comm: Comm | None = None) -> object:
    """A piece, and how many bytes its memory has; `case.args = (which function, weight, rank, ranks)`."""
    import torch

    if case.args[0] == WEIGHED:
        return _cut_weighed(answers, *case.args[1:])
    which, weight, rank, ranks = case.args
    got = answers[which](weight, rank, ranks)
    if not isinstance(got, torch.Tensor):
        return got, None
    return got, got.untyped_storage().nbytes()


def factors(seed: int, sizes: Sequence[int], weights: int) -> list[list[torch.Tensor]]:
    """Two rows of numbers for each of some weights, which is their outer product; the same ones every time."""
    import torch

    coin = torch.Generator().manual_seed(seed)
    return [[torch.randn(size, generator=coin) for size in sizes] for _ in range(weights)]


def _cut_weighed(
    answers: tuple[Answer, ...], weights: tuple[int, Sequence[int], int], rank: int, ranks: int, places: object
) -> object:
    """Pieces of weights that are freed, cut by columns and by rows in turn: shapes, and the numbers at some places."""
    import torch

    kept = [answers[at % 2](torch.outer(*both), rank, ranks) for at, both in enumerate(factors(*weights))]
    return [(list(piece.shape), piece[places]) for piece in kept]


def packed(answers: tuple[Answer, ...], case: Case, comm: Comm | None = None) -> object:
    """What a function returns for each row, or that it refused with a ValueError; `case.args = (which, rows)`."""

    def refusing(answer: Answer) -> Answer:
        return lambda *row: or_refusal(answer, *row)

    return rows(tuple(map(refusing, answers)), case)


def pair(answers: tuple[Answer, ...], case: Case, comm: Comm | None = None) -> object:
    """One operator in both passes, with a residual branch past it;
    `case.args = (which, wish, x of this rank, its gradient)`."""
    which, wish, x, gradient = case.args
    leaf = as_leaf(x, wish == TURNED)
    inside = leaf * 1  # somebody else's tensor, whose numbers the answer may read
    kept = inside.detach().clone()
    out = answers[which](inside, comm)
    found = {"out": _detached(out)}
    if wish == FORWARD or not _differentiable(out) or out.shape != inside.shape:
        return {**found, "grad": None, "touched": not bool((inside.detach() == kept).all())}
    given = as_leaf(gradient, wish == TURNED).detach()
    before = given.clone()
    (out + inside).backward(given)
    touched = not (bool((inside.detach() == kept).all()) and bool((given == before).all()))
    return {**found, "grad": leaf.grad, "touched": touched}


def _differentiable(out: object) -> bool:
    return bool(getattr(out, "requires_grad", False))


def _detached(value: object) -> object:
    return value.detach() if hasattr(value, "detach") else value


class Passes(TypedDict):
    """What both passes of an answer gave."""

    y: object
    grads: dict[str, object]
    touched: list[str]


def both_passes(call: Answer, inputs: Mapping[str, torch.Tensor], gradient: torch.Tensor | None) -> Passes:
    """What `call(leaves)` returned, the gradient of each input after the backward pass, and the inputs that were
    changed."""
    leaves = {name: as_leaf(value) for name, value in inputs.items()}
    kept = {name: leaf.detach().clone() for name, leaf in leaves.items()}
    out = call(leaves)
    grads: dict[str, object] = dict.fromkeys(inputs)
    wanted = () if gradient is None else tuple(gradient.shape)
    if _differentiable(out) and tuple(out.shape) == wanted:
        out.backward(None if gradient is None else gradient.clone())
        grads = {name: leaf.grad for name, leaf in leaves.items()}
    touched = [name for name, leaf in leaves.items() if not bool((leaf.detach() == kept[name]).all())]
    return {"y": _detached(out), "grads": grads, "touched": touched}


def mlp(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """Both passes of the MLP; `case.args = (x, gradient of y, this rank's weights)`."""
    x, gradient, weights = case.args
    inputs = {"x": x, **weights}
    return both_passes(lambda own: answer(comm, own["x"], {name: own[name] for name in weights}), inputs, gradient)


def attention(answer: Answer, case: Case, comm: Comm) -> object:
    """Both passes of attention; `case.args = (x, gradient of y, head_dim, groups of copies, this rank's weights)`."""
    x, gradient, head_dim, groups, weights = case.args
    made = [comm.new_group(list(group)) for group in groups]
    copies = next(each for each, group in zip(made, groups, strict=True) if comm.rank in group)

    def call(own: Mapping[str, object]) -> object:
        return answer(comm, copies, own["x"], {name: own[name] for name in weights}, head_dim)

    return both_passes(call, {"x": x, **weights}, gradient)


def columns(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """Both passes of a row-parallel layer; `case.args = (gradient of y, x here, weight here, bias)`."""
    gradient, x, weight, bias = case.args
    inputs = {"x": x, "weight": weight, "bias": bias}
    return both_passes(lambda own: answer(comm, own["x"], own["weight"], own["bias"]), inputs, gradient)


def embedding(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """Both passes of the embedding; `case.args = (tokens, gradient, (vocab, rows here))`: the two belong together."""
    tokens, gradient, (vocab, weight) = case.args
    before = tokens.clone()
    found = both_passes(lambda leaves: answer(comm, tokens, leaves["weight"], vocab), {"weight": weight}, gradient)
    if not bool((tokens == before).all()):
        found["touched"].append("tokens")
    return found


def losses(answer: Answer, case: Case, comm: Comm) -> object:
    """The loss, the gradient of this rank's logits, the most bytes alive;
    `case.args = (targets, vocab, wish, logits here)`."""
    targets, vocab, wish, logits = case.args
    if wish == WEIGHED:
        return _losses_weighed(answer, comm, targets, vocab, *logits)

    def both() -> Passes:
        return both_passes(lambda own: answer(comm, own["logits"], targets.clone(), vocab), {"logits": logits}, None)

    if wish != MEASURED:
        return both()
    from course_lib.model.accounting import Accounting

    with Accounting() as books:
        found = both()
        return {**found, "peak": books.peak_bytes}


def _losses_weighed(
    answer: Answer,
    comm: Comm,
    targets: torch.Tensor,
    vocab: int,
    table: torch.Tensor,
    times: int,
    places: Sequence[int],
) -> object:
    """The loss of logits that are a table repeated, and their gradient at some places, so that little is returned."""
    logits = table.repeat(1, 1, times).requires_grad_()
    loss = answer(comm, logits, targets, vocab)
    loss.backward()
    assert logits.grad is not None
    return {"y": loss.detach(), "grad": logits.grad[0][places]}


def overlapped(answer: Answer, case: Case, comm: Comm) -> object:
    """What the backward pass returned, and the products it made; `case.args = (seconds a product, grad, x, weight)`."""
    seconds, grad, x, weight = case.args
    made = []

    def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        comm.compute(seconds, kind="backward", label="product")
        made.append((*a.shape, *b.shape))
        return a @ b

    kept = [each.clone() for each in (grad, x, weight)]
    got = answer(comm, matmul, grad, x, weight)
    rows = zip(("grad", "x", "weight"), (grad, x, weight), kept, strict=True)
    touched = [name for name, now, was in rows if not bool((now == was).all())]
    return {"got": got, "products": len(made), "touched": touched}


def streams(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """The first numbers of both generators; `case.args = (pairs of seed and rank, how many numbers)`.

    Empty where an answer is no pair of generators. The process's own generator is moved before each call, and must not
    move in it. `hash` of a text is another one in each call, as in each process.
    """
    import torch

    pairs, count = case.args
    drawn: list[object] = []
    getattr(answer, "__globals__", {})["hash"] = lambda x: hash((len(drawn), x) if "'" in repr(x) else x)
    for at, (seed, rank) in enumerate(pairs):
        torch.default_generator.manual_seed(
            1000 + 17 * at
        )  # `torch.manual_seed` seeds every kind of device: 400 times as long
        before = torch.get_rng_state()
        got = answer(seed, rank)
        moved = not bool((torch.get_rng_state() == before).all())
        pair = list(got) if type(got) in (tuple, list) else []
        if len(pair) != 2 or not all(isinstance(each, torch.Generator) for each in pair):
            return []
        # outside is drawn before inside, and both together again: two names of one generator would show
        outside, inside = (torch.rand(count, generator=each).tolist() for each in pair)
        drawn.append((outside, inside, pair[0] is pair[1], moved))
    return drawn
