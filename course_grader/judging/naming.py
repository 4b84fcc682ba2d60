"""Name a mistake by running it: the shipped wrong answers run on the cases that an answer gets wrong.

A mistake is named if it does what the answer did on every failing case of a share, and if no mistake with another name
does the same. "What it did" is the whole result, or one part of it: one place of a tuple, one key of a dictionary, one
rank or one row. For cost and protocol it is the traffic. Where many results are right, it is what the judge reports. A
single word or None is weak evidence, so there the mistake must agree with the answer on all cases; so are a few small
whole numbers, and there it must not fail where the answer is right. If no mistake fits, the judge's message stays: it
says what differs and names no cause.
"""

import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from course_grader.bank.answer_bank import BankAnswer
from course_grader.exercises.placeholders import fill_text
from course_grader.exercises.values import is_number, is_tensor
from course_grader.judging.contract import Judging, Params
from course_grader.judging.mistakes import WHOLE
from course_grader.judging.shipped import answers
from course_grader.judging.worked import Recent, Worked, case_key, judged_variant, outcome_of
from course_grader.records import VERDICT_KINDS, Case, Outcome, Verdict

if TYPE_CHECKING:
    import torch

SECONDS = 2.0  # CPU time after which no further mistake is tried
FEW = 4  # wrong values, which say little if none of them is telling
CASES = 4  # failing cases of a share on which all mistakes are tried; the one that fits is tried on the others too
REL = 1e-3  # how close numbers must be in a whole outcome; in the part that is judged it is `Judging.within`
_NEARLY = 1e-5  # of tensors, relative to each number
SETTLED = frozenset({"only-the-example", "public-form", "in-flight", "ready-made", "not-answered", "returned-none"})
"""What a judge knows for certain: no shipped mistake is looked for."""
_TRAFFIC = ("bytes_sent", "bytes_received", "messages_sent", "messages_received", "steps", "pairs")
_WAIT = re.compile(r"rank (\d+) waits for (rank \d+(?:, rank \d+)*): call (\d+), (\w+)")

Path = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """A case that was asked on the variant with these numbers, what came back, and the verdicts on it."""

    params: Params
    case: Case
    outcome: Outcome
    verdicts: Sequence[Verdict]


def mistakes_of(exercise: str) -> list[tuple[BankAnswer, str, str]]:
    """The wrong answers that have a sentence, each with the mistake's name and the sentence; of one name the first
    one's."""
    wrong = [each for each in answers(exercise) if each.sort != "right" and each.mistake not in ("-", "~")]
    says: dict[str, str] = {}
    for each in wrong:
        if each.says:
            says.setdefault(each.mistake, each.says)
    return [(each, each.mistake, each.says or says[each.mistake]) for each in wrong if each.mistake in says]


def named(exercise: str, contract: Judging, judged: Sequence[Judged], seconds: float = SECONDS) -> list[list[Verdict]]:
    """The verdicts of each case; where a shipped mistake does what the answer did, they carry its name and its
    sentence.

    After `seconds` of CPU time no further mistake is tried; with 0, none is.
    """
    told = [list(each.verdicts) for each in judged]
    open_ones: dict[tuple[str, str, Path], list[tuple[int, int]]] = {}
    for at, each in enumerate(judged):
        for number, verdict in enumerate(each.verdicts):
            if not verdict.ok and verdict.mistake not in SETTLED:
                open_ones.setdefault((verdict.kind, verdict.part, verdict.where), []).append((at, number))
    candidates = mistakes_of(exercise) if open_ones and seconds else []
    if not candidates:
        return told
    until = time.process_time() + seconds
    trial = _Trial(exercise, contract, judged, until)
    for share in sorted(open_ones, key=lambda share: VERDICT_KINDS.index(share[0])):
        places = open_ones[share]
        if trial.only_nan_is_wrong(places) or (found := trial.cause(candidates, places)) is None:
            continue
        name, sentence = found
        for at, number in places:
            verdict = told[at][number]
            message = verdict.lead + fill_text(sentence, judged[at].params)
            told[at][number] = replace(verdict, mistake=name, message=message)
    return told


_said = Recent[tuple[Case, Sequence[Verdict]]](600)  # what the judge says of mistakes; the case keeps its id


class _Trial:
    """The runs of the mistakes of one exercise beside one answer's."""

    def __init__(self, exercise: str, contract: Judging, judged: Sequence[Judged], until: float) -> None:
        self.right, self.contract, self.judged, self.until = Worked(exercise), contract, judged, until

    def cause(
        self, candidates: Sequence[tuple[BankAnswer, str, str]], places: Sequence[tuple[int, int]]
    ) -> tuple[str, str] | None:
        """The one mistake that explains all these verdicts, as its name and sentence; None where there is none or are
        several."""
        enough = None if self.contract.many_right else CASES  # what a judge finds is less particular than a value
        first = sorted(places, key=lambda place: (self.judged[place[0]].case.ranks or 0, place))[:enough]
        whole, parts = list[tuple[BankAnswer, str, str]](), dict[Path, list[tuple[BankAnswer, str, str]]]()
        for candidate in candidates:
            found: set[Path] | None = None
            for at, number in first:
                if time.process_time() > self.until:
                    return None
                here = self.explained(candidate[0], at, number)
                found = here if found is None else found & here
                if not found:
                    break
            if found:
                for path in found:
                    parts.setdefault(path, []).append(candidate)
                if () in found:
                    whole.append(candidate)
        none = any(self.judged[at].verdicts[number].mistake == "some-is-right" for at, number in first)
        tried = [whole, *(parts[path] for path in sorted(parts, key=repr) if path)]
        for rivals in tried:
            if not rivals:
                continue
            names = {name: sentence for _, name, sentence in reversed(rivals)}
            word = none or _says_little(self.judged[first[0][0]].outcome.value)
            if len(names) > 1 or word:
                names = self.told_apart(rivals, to_the_end=word)
            if len(names) == 1 and self.fits_all(rivals, next(iter(names)), places):
                by_chance = self.little_is_wrong(places) and all(
                    self.fails_elsewhere(each) for each, name, _ in rivals if name in names
                )
                return None if by_chance else next(iter(names.items()))
            if rivals is whole and names:
                return None
        return None

    def only_nan_is_wrong(self, places: Sequence[tuple[int, int]]) -> bool:
        """Whether NaN is all that is wrong here, to which many mistakes lead."""
        if self.contract.many_right or any(self.judged[at].outcome.state != "answered" for at, _ in places):
            return False
        found = False
        for one, right in (pair for place in places for pair in self.judged_values(*place)):
            if not _equal(one, right):
                if type(one) is not float or not math.isnan(one):
                    return False
                found = True
        return found

    def little_is_wrong(self, places: Sequence[tuple[int, int]]) -> bool:
        """Whether only a few values are wrong here, none of them telling, so that different mistakes may share them."""
        wrong = list[object]()
        for at, number in dict(places).items():
            if self.contract.many_right or self.judged[at].outcome.state != "answered" or len(wrong) > FEW:
                return False
            wrong += [one for one, right in self.judged_values(at, number) if _apart(one, right)]
        return 0 < len(wrong) <= FEW and not any(map(_is_telling, wrong))

    def judged_values(self, at: int, number: int) -> Iterator[tuple[object, object]]:
        """The values that a verdict is about, each with the right one."""
        case, got, where = self.judged[at].case, self.judged[at].outcome, self.judged[at].verdicts[number].where
        with judged_variant(self.right.exercise, self.judged[at].params):
            mine, want = _leaves(got.value), _leaves(self.right.value(case))
        for path in {**want, **mine}:
            if where == WHOLE or _begins(path[type(got.value) is list :], where):
                yield mine.get(path, _NOTHING), want.get(path, _NOTHING)

    def fails_elsewhere(self, answer: BankAnswer) -> bool:
        """Whether a shipped answer fails somewhere where the answer is right, as far as the time allows."""
        for at, each in enumerate(self.judged):
            if time.process_time() > self.until:
                return False
            wrong = {(verdict.kind, verdict.part) for verdict in each.verdicts if not verdict.ok}
            right = {(verdict.kind, verdict.part) for verdict in each.verdicts} - wrong
            if right and each.outcome.state == "answered":
                alike = self.run(answer, at).state == "answered"
                its = self.verdicts(answer, at) if alike else ()
                if not alike or any((verdict.kind, verdict.part) in right for verdict in its if not verdict.ok):
                    return True
        return False

    def fits_all(
        self, rivals: Sequence[tuple[BankAnswer, str, str]], name: str, places: Sequence[tuple[int, int]]
    ) -> bool:
        """Whether a shipped answer with this name explains something of every failing verdict, as far as the time
        allows."""
        for answer in (each for each, its, _ in rivals if its == name):
            if all(time.process_time() > self.until or self.explained(answer, *place) for place in places):
                return True
        return False

    def told_apart(self, rivals: Sequence[tuple[BankAnswer, str, str]], to_the_end: bool = False) -> dict[str, str]:
        """The mistakes that do what the answer did in every case, the ones that it gets right among them, until one
        name is left."""
        left = list(rivals)
        for at in sorted(range(len(self.judged)), key=lambda at: (self.judged[at].case.ranks or 0, at)):
            few = len({name for _, name, _ in left}) < (1 if to_the_end else 2)
            if few or time.process_time() > self.until:
                break
            left = [each for each in left if self.does_the_same(each[0], at)]
        return {name: sentence for _, name, sentence in reversed(left)}

    def does_the_same(self, answer: BankAnswer, at: int) -> bool:
        """Whether a shipped answer does on a case what the answer did."""
        each, slip = self.judged[at], self.run(answer, at)
        if self.contract.many_right and each.outcome.state == slip.state == "answered":
            found = [verdict.message for verdict in each.verdicts]
            return found == [verdict.message for verdict in self.verdicts(answer, at)]
        return _same_outcome(each.outcome, slip)

    def run(self, answer: BankAnswer, at: int) -> Outcome:
        """The outcome of a shipped answer on a case."""
        return outcome_of(answer, self.judged[at].params, self.judged[at].case)

    def verdicts(self, answer: BankAnswer, at: int) -> Sequence[Verdict]:
        """What the judge says of a shipped answer on a case."""
        each, slip = self.judged[at], self.run(answer, at)

        def said() -> tuple[Case, Sequence[Verdict]]:
            with judged_variant(self.right.exercise, each.params):
                return each.case, self.contract.verdicts(each.params, each.case, slip)

        return _said.made(case_key(answer, each.params, each.case), said)[1]

    def explained(self, answer: BankAnswer, at: int, number: int) -> set[Path]:
        """The parts of a failing verdict's outcome in which a mistake does what the answer did; () is the whole of
        it."""
        each = self.judged[at]
        verdict, got = each.verdicts[number], each.outcome
        if got.state not in ("answered", "deadlock"):  # an error speaks for itself
            return set()
        slip = self.run(answer, at)
        if got.state != "answered" or slip.state != "answered":
            return {()} if got.state == slip.state == "deadlock" and _waits(got) == _waits(slip) else set()
        its = self.verdicts(answer, at)
        found = [other for other in its if (other.kind, other.part, other.ok) == (verdict.kind, verdict.part, False)]
        if not found:
            return set()
        told = any(other.message == verdict.message for other in its)
        if self.contract.many_right:
            return {()} if told else set()
        calm = each.case.adversary is None or verdict.kind != each.case.kind  # else it is about values
        if verdict.kind in ("cost", "protocol") and calm and got.meter:
            alike = any(other.mistake == verdict.mistake for other in found)  # the judge finds the same in both
            same = alike and all(got.meter.get(name) == slip.meter.get(name) for name in _TRAFFIC)
            return {()} if told or same else set()
        with judged_variant(self.right.exercise, each.params):
            right = self.right.value(each.case)
        return _parts_alike(got.value, slip.value, right, verdict.where, self.contract.within)


def _same_outcome(got: Outcome, slip: Outcome) -> bool:
    if got.state != "answered" or slip.state != "answered":
        return got.state == slip.state
    return _alike(_leaves(got.value), _leaves(slip.value))


def _waits(outcome: Outcome) -> list[tuple[str, ...]]:
    """Who waits for whom in a deadlock, the first two of them: an error of an answer speaks for itself, a deadlock may
    have a cause."""
    return _WAIT.findall(outcome.error)[:2]


def _parts_alike(got: object, slip: object, right: object, where: Path, rel: float = REL) -> set[Path]:
    """The parts of what came back that are wrong and are just what a mistake gives: () for all of it, else a row's or
    rank's part `(key, ...)` over all rows. `where` limits the search to parts that begin so; `...` in it is any key.
    """
    if where == WHOLE:
        return {()} if _alike(_leaves(got), _leaves(slip)) else set()
    its = _leaves(slip)
    columns = _columns_of(got, right, where, its.keys())
    fits = {
        column: all(_fits(mine, its.get(path, _NOTHING), want, rel) for path, mine, want in values)
        for column, values in columns.items()
    }
    found = {
        column
        for column, values in columns.items()
        if fits[column] and any(_apart(its.get(path, _NOTHING), want) for path, _, want in values)
    }
    if not found and not all(fits.values()) and _row_alike(got, slip, right, where):
        return {_ONE_ROW}
    return found | ({()} if found and all(fits.values()) else set())


Columns = dict[Path, list[tuple[Path, object, object]]]


def _columns_of(got: object, right: object, where: Path, paths: Set[Path]) -> Columns:
    """The values of an answer and the right ones, with their paths, by the part that they belong to; `paths` may add
    some."""
    mine, wants, many = _leaves(got), _leaves(right), type(got) is list

    def columns(paths: Iterable[Path]) -> Columns:
        found = Columns()
        for path in paths:
            column = path[1:] if many else path
            if not where or _begins(column, where):
                three = path, mine.get(path, _NOTHING), wants.get(path, _NOTHING)
                found.setdefault(column[: max(1, len(where))], []).append(three)
        return found

    known = _sorted.made((id(got), id(right), where), lambda: (got, right, columns({**mine, **wants})))[2]
    more = columns(paths - mine.keys() - wants.keys())
    return {**known, **{column: [*known.get(column, ()), *values] for column, values in more.items()}}


def _begins(path: Path, where: Path) -> bool:
    if len(path) < len(where):
        return False
    for key, given in zip(path, where, strict=False):  # noqa: SIM110  # `all` takes three times as long
        if given is not ... and given != key:
            return False
    return True


_ONE_ROW: Path = ("one row",)


def _row_alike(got: object, slip: object, right: object, where: Path) -> bool:
    """Whether the first wrong row, or rank's result, is just what the mistake gives there, and telling, and the mistake
    is right wherever the answer is."""
    if type(got) is not list or type(slip) is not list or type(right) is not list:
        return False

    def leaves(row: object) -> dict[Path, object]:
        return {path: each for path, each in _gather({}, row, ()).items() if not where or _begins(path, where)}

    def sound() -> list[bool]:
        return [_alike(leaves(mine), leaves(want)) for mine, want in zip(got, right, strict=False)]

    rows = _rows.made((id(got), id(right), where), lambda: (got, right, sound()))[2][: len(slip)]
    if all(rows):
        return False
    at = rows.index(False)
    mine, its, wants = (leaves(each[at]) for each in (got, slip, right))
    paths = {**mine, **its, **wants}
    return (
        all(_fits(mine.get(path, _NOTHING), its.get(path, _NOTHING), wants.get(path, _NOTHING)) for path in paths)
        and any(_is_telling(its[path]) and _apart(its[path], wants.get(path)) for path in its)
        and all(_alike(leaves(slip[at]), leaves(right[at])) for at, good in enumerate(rows) if good)
    )


def _is_telling(value: object) -> bool:
    """Whether a value is too particular to come back by chance."""
    if is_number(value):
        return value != int(value) or abs(value) >= 1_000
    return hasattr(value, "numel") and value.numel() > 3


def _says_little(value: object) -> bool:
    """Whether a value is a word, None or a yes, which different mistakes may share: it names one only if all cases
    agree."""
    found = [each for path, each in _leaves(value).items() if path[-1:] != (len,)]
    return len(found) <= 2 and all(type(each) in (str, bool, type(None)) for each in found)


_NOTHING = object()
_TIGHT = 1e-9


def _fits(mine: object, its: object, want: object, rel: float = REL) -> bool:
    """Whether a value is that of the mistake: within rounding of it, and far nearer to it than to the right one."""
    if mine is its or (type(mine) is type(its) and _identical(mine, its)):
        return True
    if not _equal(mine, its, rel):
        return False
    if not _apart(its, want):
        return True
    if is_number(mine) and is_number(its) and is_number(want):
        return abs(mine - its) <= 0.1 * abs(its - want)
    if is_tensor(mine) and is_tensor(its) and is_tensor(want) and its.shape == want.shape and its.numel():
        off, between = (abs(one.double() - its.double()).nan_to_num().max() for one in (mine, want))
        return bool(off <= 0.1 * between)
    return True


def _apart(its: object, want: object) -> bool:
    """Whether a mistake leads to another value than the right one."""
    if type(its) is type(want) is int:
        return its != want
    if is_number(its) and is_number(want):
        return not math.isclose(its, want, rel_tol=_TIGHT, abs_tol=1e-12)
    if is_tensor(its) and is_tensor(want) and its.shape == want.shape and its.dtype == want.dtype:
        return not _identical(its, want)
    return not _equal(its, want)


def _identical(one: object, two: object) -> bool:
    """Whether two plain values of one type are the same, tensors bit by bit; NaN is not."""
    if type(one) in _PLAIN:
        return bool(one == two)
    return is_tensor(one) and is_tensor(two) and one.dtype == two.dtype and one.shape == two.shape and one.equal(two)


def _alike(mine: Mapping[Path, object], its: Mapping[Path, object]) -> bool:
    return mine.keys() == its.keys() and all(_equal(value, its[path]) for path, value in mine.items())


_flat = Recent[tuple[object, dict[Path, object]]](256)  # values, each with its leaves; the value keeps its id
_sorted = Recent[tuple[object, object, Columns]](64)  # both values, and what is compared of them, by parts
_rows = Recent[tuple[object, object, list[bool]]](64)  # both lists, and which rows are right
_PLAIN = frozenset({int, float, str, bool, type(None)})


def _leaves(value: object) -> dict[Path, object]:
    """The values that plain data hold, each by the way to it."""
    if type(value) in _PLAIN:
        return {(): value}
    return _flat.made(id(value), lambda: (value, _gather({}, value, ())))[1]


def _gather(found: dict[Path, object], value: object, path: Path) -> dict[Path, object]:
    kind = type(value)
    if kind in _PLAIN:
        found[path] = value
    elif isinstance(value, (list, tuple)):
        found[(*path, len)] = len(value)
        for at, each in enumerate(value):
            if type(each) in _PLAIN:
                found[(*path, at)] = each
            else:
                _gather(found, each, (*path, at))
    elif isinstance(value, Mapping):
        for key, each in value.items():
            if type(each) in _PLAIN:
                found[(*path, key)] = each
            else:
                _gather(found, each, (*path, key))
    else:
        found[path] = value
    return found


def _equal(one: object, two: object, rel: float = REL) -> bool:
    """Whether two values are the same up to rounding."""
    if one is two or (type(one) is type(two) and type(one) in _PLAIN and one == two):
        return True
    if is_number(one) and is_number(two):
        return math.isclose(one, two, rel_tol=rel, abs_tol=1e-12) if float in (type(one), type(two)) else one == two
    if is_tensor(one) and is_tensor(two):
        return _same_tensors(one, two)
    if type(one) is str and type(two) is str:
        return one.strip().lower() == two.strip().lower()
    return type(one) is type(two) and bool(one == two or (one != one and two != two))


def _same_tensors(one: "torch.Tensor", two: "torch.Tensor") -> bool:
    import torch

    if one.dtype != two.dtype or one.shape != two.shape:
        return False
    if not one.numel() or not one.is_floating_point():
        return torch.equal(one, two)
    if torch.equal(one, two):
        return True
    a, b = one.detach().double(), two.detach().double()
    off = float((a - b).abs().max())
    if not math.isfinite(off):  # the same numbers where they are finite
        if not torch.equal(a.isfinite(), b.isfinite()):
            return False
        a, b = a.nan_to_num(0.0, 0.0, 0.0), b.nan_to_num(0.0, 0.0, 0.0)
    eps, size = torch.finfo(one.dtype).eps, b.abs()
    close = max(_NEARLY, 4 * eps)
    noise = min(close, 64 * eps) * max(float(size.max()), 1e-300)  # of sums whose terms cancel
    return bool(((a - b).abs() <= close * size + noise).all())
