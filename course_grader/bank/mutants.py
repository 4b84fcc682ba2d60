"""Mutants of a right answer: copies that each differ from it in one small way, such as `<` for `<=`.

If a mutant still gets full points, some condition of the exercise's statement has no case that fails without it, or the
change makes no difference for any input that the statement allows.

Mutation libraries such as mutmut and cosmic-ray change the modules of an installed package on disk and run its test
suite. Here the mutated code is a string that a judge runs, so the standard operators are written down for syntax trees.
"""

import ast
import copy
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

CONDITION, CALL, NUMBER = 0, 1, 2  # what a change touches; a sample takes conditions first

_SHIFTED = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
_NEGATED = {ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is}
_OTHER_SIGN = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
_OTHER_NAME = {"min": "max", "max": "min", "ceil": "floor", "floor": "ceil", "amin": "amax", "amax": "amin"}
_DROPPED_METHODS = {"clone", "detach", "contiguous", "float", "double", "to", "copy", "abs"}
_DROPPED_CALLS = {"int", "float", "list", "tuple", "sorted", "reversed", "abs", "round", "set", "deepcopy"}
_ANY_ORDER = {
    "min",
    "max",
    "maximum",
    "isinstance",
    "zip",
    "print",
    "add",
    "mul",
    "gcd",
    "lcm",
}  # arguments that may change places
_COUNT = 16  # whole numbers up to here count something and may be off by one; larger ones and fractions are doubled
_LONG, _AROUND = 90, 30  # letters of a statement shown whole, and shown on each side of a change in a longer one
_Place = tuple[tuple[str, int | None], ...]  # the way from the module to a node: (field, index in a list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A right answer with one change: the statement as it was, as it is now ("" where it is gone), and the whole
    source."""

    exercise: str
    operator: str
    rank: int  # CONDITION, CALL or NUMBER
    number: int  # of the line in the right answer
    line: str
    changed: str
    source: str

    @property
    def key(self) -> tuple[str, str]:
        """What names it in the table of equivalent mutants of its exercise."""
        return self.line, self.changed


def mutants(exercise: str, source: str, pinned: Mapping[str, Mapping[str, object]] | None = None) -> list[Mutant]:
    """All mutants of an answer to an exercise, in the order of its lines, each once.

    `pinned` gives for a function the values of its parameters that a learner is shown: each makes a mutant that ignores
    what it is given.
    """
    tree = ast.parse(source)
    whole = ast.unparse(tree)
    found: dict[tuple[str, str, int], Mutant] = {}
    for place, statement, operator, rank, make in _sites(tree, pinned or {}):
        other = copy.deepcopy(tree)
        make(_at(other, place), other)
        changed = ast.unparse(ast.fix_missing_locations(other))
        if changed == whole:
            continue
        was, now = _head(_at(tree, statement)), _head(_at(other, statement))
        if operator in ("statement removed", "with removed", "order of two conditions"):
            now = {
                "statement removed": "",
                "with removed": "",
                "order of two conditions": "(after the next condition)",
            }[operator]
        elif operator == "shown value":
            now = ast.unparse(_at(other, statement).body[0])  # type: ignore[attr-defined]
        number = _at(tree, place).lineno if hasattr(_at(tree, place), "lineno") else _at(tree, statement).lineno  # type: ignore[attr-defined]
        was, now = _shortened(was, now)
        mutant = Mutant(
            exercise=exercise, operator=operator, rank=rank, number=number, line=was, changed=now, source=changed
        )
        found.setdefault((was, now, number), mutant)
    return sorted(found.values(), key=lambda each: each.number)


def sample(all_of_them: Sequence[Mutant], most: int) -> list[Mutant]:
    """At most so many mutants of conditions and calls, conditions first, nearly the same ones after a small edit.

    Changed numbers are left out: they almost always change every result, and those that do not are constants within a
    tolerance.
    """

    def order(mutant: Mutant) -> tuple[int, str]:
        return mutant.rank, hashlib.sha256("\n".join((mutant.exercise, *mutant.key)).encode()).hexdigest()

    chosen = sorted((each for each in all_of_them if each.rank < NUMBER), key=order)[:most]
    return sorted(chosen, key=lambda each: each.number)


# ----------------------------------------------------------------------------------------------------- places in a tree

_Make = Callable[..., None]  # changes a node of the copied tree in place, given the whole copy


def _at(tree: ast.AST, place: _Place) -> ast.AST:
    for field, index in place:
        value = getattr(tree, field)
        tree = value if index is None else value[index]
    return tree


def _walk(node: ast.AST, place: _Place = (), statement: _Place = ()) -> Iterator[tuple[ast.AST, _Place, _Place]]:
    """Every node that may change, with its own place and that of the statement it belongs to."""
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Raise | ast.Assert | ast.JoinedStr):
        if isinstance(node, ast.Raise):
            yield node, place, place
        return
    own = place if isinstance(node, ast.stmt) else statement
    yield node, place, own
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        if isinstance(value, list):
            for index, each in enumerate(value):
                if isinstance(each, ast.AST) and not _checks_lengths(each):
                    yield from _walk(each, (*place, (field, index)), own)
        elif isinstance(value, ast.AST):
            yield from _walk(value, (*place, (field, None)), own)


def _checks_lengths(node: ast.AST) -> bool:
    """Whether this is `strict=…` of `zip`, which changes no result of a right answer."""
    return isinstance(node, ast.keyword) and node.arg == "strict"


def _head(statement: ast.AST) -> str:
    """A statement in one line: of a compound one its head."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.If | ast.For | ast.While | ast.With | ast.Try):
        text = ast.unparse(statement).splitlines()
        return next(line for line in text if not line.startswith("@"))
    return " ".join(ast.unparse(statement).split("\n"))


def _shortened(was: str, now: str) -> tuple[str, str]:
    """Two long texts without most of what they share, so that their difference is seen."""
    if len(was) <= _LONG or not now or now.startswith("("):
        return was[: 2 * _LONG], now[: 2 * _LONG]
    start, end, least = 0, 0, min(len(was), len(now))
    while start < least and was[start] == now[start]:
        start += 1
    while end < least - start and was[-1 - end] == now[-1 - end]:
        end += 1
    first, last = max(start - _AROUND, 0), max(end - _AROUND, 0)
    return tuple(f"{'…' * (first > 0)}{text[first : len(text) - last]}{'…' * (last > 0)}" for text in (was, now))  # type: ignore[return-value]


def _replace_with(value: Callable[..., ast.AST], place: _Place) -> _Make:
    """A change that puts another node in the place of the one there."""

    def make(node: object, tree: ast.AST) -> None:
        parent = _at(tree, place[:-1])
        field, index = place[-1]
        if index is None:
            setattr(parent, field, value(node))
        else:
            getattr(parent, field)[index] = value(node)

    return make


def _remove(place: _Place) -> _Make:
    """A change that leaves a statement out."""
    return _replace_with(lambda node: ast.Pass(), place)


# ------------------------------------------------------------------------------------------------------------ operators


def _sites(
    tree: ast.Module, pinned: Mapping[str, Mapping[str, object]]
) -> Iterator[tuple[_Place, _Place, str, int, _Make]]:
    """Every change: the node's place, its statement's, the operator's name, what it touches, and what makes it."""
    for node, place, statement in _walk(tree):
        if not place:
            continue
        for operator, rank, make in _changes(node, place):
            yield place, statement, operator, rank, make
        for field in ("body", "orelse"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                yield from _swapped(node, place, field)
        if isinstance(node, ast.FunctionDef) and node.name in pinned:
            for name, value in pinned[node.name].items():
                yield place, place, "shown value", CONDITION, _pin(name, value)


def _pin(name: str, value: object) -> _Make:
    def make(node: ast.FunctionDef, tree: ast.AST) -> None:
        node.body.insert(0, ast.parse(f"{name} = {value!r}").body[0])

    return make


def _leaves(block: Sequence[ast.stmt]) -> bool:
    return bool(block) and isinstance(block[-1], ast.Return | ast.Raise | ast.Continue)


def _swapped(node: object, place: _Place, field: str) -> Iterator[tuple[_Place, _Place, str, int, _Make]]:
    """Two conditions that follow each other, each of which ends the function, in the other order; the same for if and
    elif."""
    block = getattr(node, field)
    for index, (one, two) in enumerate(zip(block, block[1:], strict=False)):
        if isinstance(one, ast.If) and isinstance(two, ast.If) and _leaves(one.body) and _leaves(two.body):
            where = (*place, (field, index))

            def make(_: object, tree: ast.AST, index: int = index) -> None:
                own = getattr(_at(tree, place), field)
                own[index], own[index + 1] = own[index + 1], own[index]

            yield where, where, "order of two conditions", CONDITION, make
    if isinstance(node, ast.If) and field == "orelse" and len(block) == 1 and isinstance(block[0], ast.If):

        def turn(own: ast.If, tree: ast.AST) -> None:
            other = own.orelse[0]
            assert isinstance(other, ast.If)
            own.test, other.test, own.body, other.body = other.test, own.test, other.body, own.body

        yield place, place, "order of two conditions", CONDITION, turn


def _drop(field: str, index: int) -> _Make:
    def make(own: ast.AST, tree: ast.AST) -> None:
        getattr(own, field).pop(index)

    return make


def _set_bound(bound: str, new: Callable[[ast.expr], ast.expr | None]) -> _Make:
    def make(own: ast.AST, tree: ast.AST) -> None:
        setattr(own, bound, new(getattr(own, bound)))

    return make


def _changes(node: ast.AST, place: _Place) -> Iterator[tuple[str, int, _Make]]:
    """The standard operators on one node."""
    put = lambda value: _replace_with(value, place)  # noqa: E731
    match node:
        case ast.Compare(ops=ops):
            for index, op in enumerate(ops):
                for table, name in ((_SHIFTED, "comparison shifted"), (_NEGATED, "comparison negated")):
                    if type(op) in table:
                        yield name, CONDITION, _set_op(index, table[type(op)])
        case ast.If() | ast.IfExp():
            for value in (True, False):
                yield f"condition always {value}", CONDITION, _set_test(value)
        case ast.While():
            yield "condition always False", CONDITION, _set_test(False)
        case ast.comprehension(ifs=ifs):
            for index in range(len(ifs)):
                yield "filter dropped", CONDITION, _drop("ifs", index)
        case ast.BoolOp(values=values):
            for index in range(len(values)):
                yield "and/or operand dropped", CONDITION, put(_without_operand(index))
        case ast.UnaryOp(op=ast.Not()):
            yield "not removed", CONDITION, put(lambda own: own.operand)
        case ast.UnaryOp(op=ast.USub(), operand=operand) if not isinstance(operand, ast.Constant):
            yield "sign removed", NUMBER, put(lambda own: own.operand)
        case ast.BinOp(op=op):
            yield from _arithmetic(node, op, put)
        case ast.Call():
            yield from _calls(node, put)
        case ast.Slice():
            yield from _slices(node)
        case ast.Constant(value=bool(value)):
            yield "True for False", CONDITION, put(lambda own: ast.Constant(not own.value))
        case ast.Constant(value=int(value)) if abs(value) <= _COUNT:
            for step in (1, -1):
                yield "constant shifted", NUMBER, put(lambda own, step=step: ast.Constant(own.value + step))
        case ast.Constant(value=int() | float()):
            yield "constant doubled", NUMBER, put(lambda own: ast.Constant(own.value * 2 or 1.0))
        case ast.AugAssign(op=op):
            yield "statement removed", CALL, _remove(place)
            yield "update to assignment", NUMBER, put(lambda own: ast.Assign([own.target], own.value, lineno=0))
        case ast.Expr(value=ast.Constant()):
            return
        case ast.Expr() | ast.Delete() | ast.Break() | ast.Continue() | ast.Raise():
            yield "statement removed", CALL, _remove(place)
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute()]):
            yield "statement removed", CALL, _remove(place)
        case ast.With():
            yield "with removed", CALL, put(lambda own: ast.If(ast.Constant(True), own.body, []))


def _set_op(index: int, op: type[ast.cmpop]) -> _Make:
    def make(own: ast.Compare, tree: ast.AST) -> None:
        own.ops[index] = op()

    return make


def _set_test(value: bool) -> _Make:
    def make(own: ast.If | ast.IfExp | ast.While, tree: ast.AST) -> None:
        own.test = ast.Constant(value)

    return make


def _without_operand(index: int) -> Callable[[ast.BoolOp], ast.AST]:
    def value(own: ast.BoolOp) -> ast.AST:
        left = [each for at, each in enumerate(own.values) if at != index]
        return left[0] if len(left) == 1 else ast.BoolOp(own.op, left)

    return value


def _arithmetic(node: ast.AST, op: ast.operator, put: Callable[..., _Make]) -> Iterator[tuple[str, int, _Make]]:
    if type(op) in _OTHER_SIGN:
        yield "other operation", NUMBER, lambda own, _: setattr(own, "op", _OTHER_SIGN[type(own.op)]())
    if isinstance(op, ast.FloorDiv):
        yield (
            "rounded up",
            NUMBER,
            put(
                lambda own: ast.UnaryOp(
                    ast.USub(), ast.BinOp(ast.UnaryOp(ast.USub(), own.left), ast.FloorDiv(), own.right)
                )
            ),
        )
    if isinstance(op, ast.Mod | ast.FloorDiv):
        yield "operation removed", NUMBER, put(lambda own: own.left)


def _calls(node: ast.Call, put: Callable[..., _Make]) -> Iterator[tuple[str, int, _Make]]:
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name in _OTHER_NAME:
        yield "min/max or ceil/floor swapped", CALL, lambda own, _: _rename(own.func, _OTHER_NAME[name])
    if isinstance(function, ast.Attribute) and name in _DROPPED_METHODS:
        yield "call removed", CALL, put(lambda own: own.func.value)
    if isinstance(function, ast.Name) and name in _DROPPED_CALLS and len(node.args) >= 1:
        yield "call removed", CALL, put(lambda own: own.args[0])
    if name == "range" and not node.keywords:
        yield from _range_bounds(node)
    plain = [each for each in node.args if not isinstance(each, ast.Starred)]
    if len(plain) == len(node.args) >= 2 and name not in _ANY_ORDER:
        yield "arguments swapped", CALL, lambda own, _: own.args.insert(0, own.args.pop(1))
    for index, keyword in enumerate(node.keywords):
        if keyword.arg and not _checks_lengths(keyword):
            yield "keyword dropped", CALL, _drop("keywords", index)


def _range_bounds(node: ast.Call) -> Iterator[tuple[str, int, _Make]]:
    """One number fewer or more at either end; whole numbers are shifted as constants."""
    if len(node.args) == 1:
        yield "range bound shifted", CALL, lambda own, _: own.args.insert(0, ast.Constant(1))
    for index, bound in enumerate(node.args[:2]):
        if not isinstance(bound, ast.Constant):
            for sign in (ast.Add(), ast.Sub()):
                yield "range bound shifted", CALL, _shift_argument(index, sign)


def _shift_argument(index: int, sign: ast.operator) -> _Make:
    def make(own: ast.Call, tree: ast.AST) -> None:
        own.args[index] = ast.BinOp(own.args[index], sign, ast.Constant(1))

    return make


def _rename(function: object, name: str) -> None:
    setattr(function, "attr" if isinstance(function, ast.Attribute) else "id", name)


def _slices(node: ast.Slice) -> Iterator[tuple[str, int, _Make]]:
    for bound in ("lower", "upper"):
        value = getattr(node, bound)
        if value is None:
            continue
        yield "slice bound dropped", NUMBER, _set_bound(bound, lambda value: None)
        if not isinstance(value, ast.Constant):
            yield (
                "slice bound shifted",
                NUMBER,
                _set_bound(bound, lambda value: ast.BinOp(value, ast.Add(), ast.Constant(1))),
            )
