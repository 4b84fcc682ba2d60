"""What the matrix need not run twice: an answer is judged, and it is also run as the oracle, or as the mistake that
another may have made."""

import ast
from collections.abc import Mapping, Sequence
from functools import cache, partial

import torch

from course_grader.bank.answer_bank import BankAnswer
from course_grader.exercises import Card
from course_grader.judging.worked import outcome_of
from course_grader.records import Case, Outcome
from course_grader.worker.runners import InProcess

_FIXED = frozenset({int, float, str, bool, type(None), torch.dtype})  # types of values that cannot change


class Remembering(InProcess):
    """Runs a shipped answer here, once on each case, whoever asks for it first."""

    def __init__(self, answer: BankAnswer, params: Mapping[str, object], functions: Sequence[object]) -> None:
        super().__init__(*functions)
        self.answer, self.params = answer, params

    def run(self, card: Card, case: Case) -> Outcome:
        """The outcome of one case."""
        if case.twice:
            return super().run(card, case)
        return outcome_of(self.answer, self.params, case, partial(super().run, card, case))


def keeps_nothing(source: str, space: Mapping[str, object]) -> bool:
    """Whether an answer, which has made these global variables, surely does the same on a case whatever it was asked
    before: functions and values that cannot change, without a place to keep anything."""
    names = _constants(source)
    return names is not None and all(name in space and _is_fixed(space[name]) for name in names)


def _is_fixed(value: object) -> bool:
    """Whether a value cannot change."""
    return type(value) in _FIXED or (type(value) is tuple and all(map(_is_fixed, value)))


@cache
def _constants(source: str) -> frozenset[str] | None:
    """The global variables of a source whose functions have no place to keep anything but them; None where they may
    have one."""
    tree = ast.parse(source)
    assigned = set[str]()
    for each in tree.body:
        match each:
            case ast.Import() | ast.ImportFrom() | ast.FunctionDef():
                pass
            case ast.Assign(targets=[ast.Name(id=name)]):
                assigned.add(name)
            case _:
                return None
    nodes = list(ast.walk(tree))
    own, bound = {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}, _bound(nodes)
    for node in nodes:
        match node:
            case ast.FunctionDef(decorator_list=[first, *more]) if more or getattr(first, "id", "") != "staticmethod":
                return None
            case ast.Global() | ast.Nonlocal():
                return None
            case ast.arguments(defaults=defaults, kw_defaults=keywords):
                if not all(
                    isinstance(each, (ast.Constant, ast.UnaryOp, type(None))) for each in [*defaults, *keywords]
                ):
                    return None
            case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store()) if name in own or name not in bound:
                return None
            case ast.Call(func=ast.Name(id="setattr" | "globals" | "vars" | "exec")):
                return None
    return frozenset(assigned)


def _bound(nodes: Sequence[ast.AST]) -> set[str]:
    """The names that functions of a source, given by its nodes, bind as parameters or by assignment."""
    names = {node.arg for node in nodes if isinstance(node, ast.arg)}
    return names | {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
