"""What the matrix need not run twice: an answer is judged, and it is also run as the oracle, or as the mistake that
another may have made."""

import ast
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

from course_grader.bank.answer_bank import BankAnswer
from course_grader.exercises import Card
from course_grader.judging.worked import outcome_of
from course_grader.records import Case, Outcome
from course_grader.worker.runners import InProcess


class Remembering(InProcess):
    """Runs a shipped answer here, once on each case, whoever asks for it first."""

    def __init__(self, answer: BankAnswer, params: Mapping[str, Any], functions: Sequence[Any]) -> None:
        super().__init__(*functions)
        self.answer, self.params = answer, params

    def run(self, card: Card, case: Case) -> Outcome:
        """The outcome of one case."""
        if case.twice:
            return super().run(card, case)
        return outcome_of(self.answer, self.params, case, partial(super().run, card, case))


@cache
def keeps_nothing(source: str) -> bool:
    """Whether an answer surely does the same on a case whatever it was asked before: functions alone, without a place
    to keep anything."""
    tree = ast.parse(source)
    if not all(isinstance(each, (ast.Import, ast.ImportFrom, ast.FunctionDef)) for each in tree.body):
        return False
    own, bound = {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}, _bound(tree)
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(decorator_list=[_, *_]) | ast.Global() | ast.Nonlocal():
                return False
            case ast.arguments(defaults=defaults, kw_defaults=keywords):
                if not all(
                    isinstance(each, (ast.Constant, ast.UnaryOp, type(None))) for each in [*defaults, *keywords]
                ):
                    return False
            case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store()) if name in own or name not in bound:
                return False
            case ast.Call(func=ast.Name(id="setattr" | "globals" | "vars" | "exec")):
                return False
    return True


def _bound(tree: ast.Module) -> set[str]:
    """The names that functions of a source bind, as parameters or by assignment."""
    names = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    return names | {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
