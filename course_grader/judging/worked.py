"""The shipped answers of an exercise at work: its right answer as the oracle, its wrong ones as what a learner may have
done.

The first right answer is the worked one: it reads the numbers of its variant, as the learner's cell does. A judge that
says `right = Worked("state-13b")` compares with `right[0](*row)`, the first function that the cell defines, or on ranks
with `right.value(case)`. Whose numbers they are is set by `judging.contract` around every call of a judge.
"""

import ast
import copy
import linecache
import marshal
import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from inspect import signature
from types import CodeType, SimpleNamespace
from typing import Any, TypeVar

from course_grader import exercises
from course_grader.bank.answer_bank import BankAnswer
from course_grader.exercises.values import types_only
from course_grader.judging.shipped import answers
from course_grader.records import Answer, Case, Outcome

Found = TypeVar("Found")
_judged: ContextVar[tuple[str, exercises.Params]] = ContextVar("judged")  # the exercise, and the numbers of its variant


@contextmanager
def judged_variant(exercise: str, params: Mapping[str, object]) -> Iterator[None]:
    """Within this context, the worked answer to an exercise has these numbers."""
    token = _judged.set((exercise, params))
    try:
        yield
    finally:
        _judged.reset(token)


class Recent(OrderedDict[object, Found]):
    """The values that were used last, at most so many."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def made(self, key: object, make: Callable[[], Found]) -> Found:
        """The kept value, or a new one."""
        if key not in self:
            self[key] = make()
            while len(self) > self.most:
                self.popitem(last=False)
        self.move_to_end(key)
        return self[key]


def once_a_case(find: Callable[[Case], Found]) -> Callable[[Case], Found]:
    """The same function of a case, which keeps what it found in the last cases, as all answers are compared with it."""
    kept = Recent[tuple[Case, Found]](64)
    return lambda case: kept.made(id(case), lambda: (case, find(case)))[1]  # with the case, which keeps its id


_defined, _compiled = Recent[tuple[Answer, ...]](64), Recent[tuple[CodeType, dict[str, str]]](256)
_texts = Recent[tuple[Mapping[str, object], str]](64)
_runs = Recent[tuple[Case, Outcome]](64)
_made = Recent[tuple[Case, Outcome]](600)  # outcomes of shipped answers, each with its case, which keeps its id
_PLAIN = (int, float, str, bool, bytes, type(None))
_results = Recent[Callable[[], Any]](4096)  # of calls of worked answers with plain data
_BOUND = ("params", "notebook")  # what an answer imports to read the numbers of its variant
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")  # fields of a statement that hold statements


def text_of(params: Mapping[str, object]) -> str:
    """The numbers of a variant as a key; of one mapping it is made once, since a log or a table takes long."""
    return _texts.made(id(params), lambda: (params, repr(sorted(params.items()))))[
        1
    ]  # with the mapping, which keeps its id


def functions(answer: BankAnswer, params: Mapping[str, object]) -> tuple[Answer, ...]:
    """What an answer defines, in the order of its card, on the variant with these parameters: its source is run as a
    cell would be."""
    title = f"<answer {hash(answer.source) & 0xFFFFFF:x}>"
    linecache.cache[title] = (len(answer.source), None, answer.source.splitlines(True), title)  # errors show the line
    code, names = _compiled.made(answer.source, lambda: _compile(answer.source, title))
    own = SimpleNamespace(params=lambda exercise: SimpleNamespace(**params))
    space: dict[str, Any] = {"__name__": "__main__"}
    space |= {name: own.params if what == "params" else own for name, what in names.items()}
    exec(code, space)
    return tuple(space[name] for name in exercises.card(answer.exercise).answers)


def _compile(source: str, title: str) -> tuple[CodeType, dict[str, str]]:
    """An answer's code without its imports of `params` and `notebook`, and the names by which it calls these two."""
    without = _Imports()
    return compile(without.visit(ast.parse(source, title)), title, "exec"), without.names


class _Imports(ast.NodeTransformer):
    """Takes imports of `params` and `notebook` out of a source, and keeps the names that they bind."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """The statement with the statements in it; expressions hold no imports, and there are many of them."""
        for name in _BLOCKS:
            if block := getattr(node, name, None):
                setattr(node, name, [self.visit(each) for each in block])
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt:
        """The import without these names."""
        if node.module not in ("course_lib", "course_app.notebook"):
            return node
        self.names |= {each.asname or each.name: each.name for each in node.names if each.name in _BOUND}
        node.names = [each for each in node.names if each.name not in _BOUND]
        return node if node.names else ast.copy_location(ast.Pass(), node)


def run(answer: BankAnswer, params: Mapping[str, object], case: Case) -> Outcome:
    """The outcome of a shipped answer on a case, in this process."""
    from course_grader.worker.runners import InProcess

    return InProcess(*functions(answer, params)).run(
        exercises.card(answer.exercise), case
    )  # anew: one may keep results


def case_key(answer: BankAnswer, params: Mapping[str, object], case: Case) -> tuple[object, ...]:
    """What the outcome of a shipped answer depends on; it is the same for every learner who is asked this case."""
    return answer.source, id(case), text_of(params), types_only.get()


def outcome_of(
    answer: BankAnswer, params: Mapping[str, object], case: Case, make: Callable[[], Outcome] | None = None
) -> Outcome:
    """The outcome of a shipped answer on a case: the one that is known, else that of `make()`, which runs it anew by
    default."""
    return _made.made(case_key(answer, params, case), lambda: (case, make() if make else run(answer, params, case)))[1]


def _is_plain(value: Any) -> bool:
    """Whether a value consists of Python's own numbers, texts, lists, tuples and dictionaries."""
    kind = type(value)
    if kind is dict:
        return all(map(_is_plain, value)) and all(map(_is_plain, value.values()))
    return all(map(_is_plain, value)) if kind in (list, tuple) else kind in _PLAIN


def _again(value: Any) -> Callable[[], Any]:
    """What gives a value again and again, a new copy each time."""
    return partial(marshal.loads, marshal.dumps(value, 2)) if _is_plain(value) else partial(copy.deepcopy, value)


def _typed(value: object) -> str:
    """A value as it can be typed, a round number in its short form: 8e+10."""
    if type(value) is float and math.isclose(float(short := f"{value:g}"), value, rel_tol=1e-12):
        return short
    return repr(value)


@dataclass(frozen=True, slots=True)
class Worked:
    """The worked answer of an exercise, on the variant that is being judged; on the public one outside of a judge."""

    exercise: str

    def __getitem__(self, index: int) -> Answer:
        """Function number `index` of the answer."""
        return partial(self._call, index)

    def __call__(self, *given: object) -> Any:
        """The only function of the answer."""
        return self._call(0, *given)

    def _call(self, index: int, *given: Any) -> Any:
        """What the answer returns; of plain data it is known from the last time, anew for every caller."""
        answer, params = self.answer, self.params
        if not _is_plain(given):
            return self._functions(answer)[index](*given)
        key = answer.source, text_of(params), index, sha256(marshal.dumps(given, 2)).digest()
        return _results.made(key, lambda: _again(self._functions(answer)[index](*given)))()

    def _functions(self, answer: BankAnswer) -> tuple[Answer, ...]:
        params = self.params
        return _defined.made((answer.source, text_of(params)), lambda: functions(answer, params))

    def words(self, index: int, form: str = "") -> Callable[..., str]:
        """A row's arguments in words, for a column of function number `index`: in those of `form`, which names them as
        the worked answer does, else the call, as a learner can type it."""
        if not form:
            return lambda *row: f"{exercises.card(self.exercise).answers[index]}({', '.join(map(_typed, row))})"

        def formed(*row: object) -> str:
            names = signature(self._functions(self.answer)[index]).parameters
            return form.format(**dict(zip(names, row, strict=False)))

        return formed

    def wrong(self, name: str, *given: object, at: int = 0) -> Any:
        """What function number `at` of a shipped wrong answer makes of these arguments, for cases that must tell the
        two apart."""
        answer = next(each for each in answers(self.exercise) if each.name == name)
        return self._functions(answer)[at](*given)

    @property
    def answer(self) -> BankAnswer:
        """The shipped answer itself."""
        return next(each for each in answers(self.exercise) if each.sort == "right")

    @property
    def params(self) -> exercises.Params:
        """The numbers of the variant."""
        exercise, params = _judged.get(("", {}))
        return params if exercise == self.exercise else exercises.card(self.exercise).params

    def outcome(self, case: Case) -> Outcome:
        """What the worked answer gives for a case on a plain machine."""
        params = self.params
        if case.adversary is None and not case.buffering:
            return outcome_of(self.answer, params, case)
        key = (self.exercise, id(case), text_of(params))
        calm = replace(case, adversary=None, buffering=0)
        return _runs.made(key, lambda: (case, run(self.answer, params, calm)))[1]  # with the case, which keeps its id

    def value(self, case: Case) -> Any:
        """The right value of a case; on ranks the list of their results."""
        return self.outcome(case).value
