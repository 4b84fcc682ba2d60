"""A class's report is the same whatever an answer puts into the text that it controls: hidden inputs and host details
stay inside."""

import base64
import contextlib
import json
import random
import re
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from course_grader import exercises
from course_grader.bank import kill_matrix
from course_grader.classroom.feedback_page import Exercise, Page, render
from course_grader.judge import decision, resolve
from course_grader.judge.closed_messages import closed_messages
from course_grader.judge.closed_words import KINDS, OWN_KIND, REST, SENTENCES, closed, types_only
from course_grader.judge.grade_notebook import grade_notebook
from course_grader.judge.report import report_dict
from course_grader.records import Case, Outcome, Verdict
from course_grader.submission import Step, Submission
from course_grader.worker.runners import InProcess
from course_grader.worker.worker_pool import WorkerPool, can_fork
from tests.tables import each_of

pytestmark = pytest.mark.skipif(not can_fork(), reason="without forks there are no clones")
_SEEN = (b"/srv/grading-7", b"root@192.0.2.1!")  # what an answer may see and wants to carry out
SECRETS = (_SEEN[0].decode(), _SEEN[1].hex()[::-1], base64.b64encode(_SEEN[1]).decode())
# A function of one exercise of values, whose body carries SECRET (text) or NUMBER (its length and first bytes) out.
OF_VALUES = {
    "an exception's message": "raise ValueError(SECRET)",
    "the message of a second line": "raise ValueError('no\\n' + SECRET)",
    "the name of an exception's class": "raise type('E' + SECRET, (Exception,), {})('no')",
    "the qualified name and the docstring of a class": "raise type('E', (Exception,), {'__qualname__': SECRET, "
    "'__doc__': SECRET})(SECRET)",
    "a note on an exception": "error = ValueError('no'); error.add_note(SECRET); raise error",
    "the cause of an exception": "raise ValueError('no') from KeyError(SECRET)",
    "a key error": "return {}[SECRET]",
    "an attribute that is missing": "return getattr(3, SECRET)",
    "the code of a syntax error": "return eval('1 +' + repr(SECRET) + ' +')",
    "the exit code's text": "raise SystemExit(SECRET)",
    "a returned string": "return SECRET",
    "returned bytes": "return SECRET.encode()",
    "a returned list": "return [SECRET]",
    "a returned dictionary": "return {SECRET: SECRET}",
    "a returned set": "return {SECRET}",
    "a class of its own": "return type('C' + SECRET, (), {'__repr__': lambda self: SECRET})()",
    "a returned tensor's shape": "import torch; return torch.zeros(NUMBER)",
    "what it prints": "print(SECRET); return -1.0",
    "warnings and the standard error": "import sys, warnings; warnings.warn(SECRET); "
    "sys.stderr.write(SECRET); return -1.0",
    "the digits of a number": "return -1.0 - 1e-4 * NUMBER / 256",
    "a variable that grows": "globals().setdefault('v' + SECRET, []).append(1); return -1.0",
}
# The body of a function of ranks (comm, x).
OF_RANKS = {
    "the message of one rank": "raise ValueError(SECRET)",
    "an error of the cluster": "comm.send(x, NUMBER + 100)",
    "the tag of a call that nobody answers": "comm.send(x, (comm.rank + 1) % comm.size, tag=NUMBER + 1000)",
    "the shape of a call that nobody answers": "comm.send(x.new_zeros(NUMBER + 100), (comm.rank + 1) % comm.size)",
    "a line of code that is not there": (
        "import linecache; code = 'def f(comm, x):\\n    comm.send(x, (comm.rank + 1) % comm.size)'; "
        "linecache.cache[SECRET] = (9, None, [SECRET, SECRET], SECRET); space = {}; exec(compile(code, SECRET, "
        "'exec'), space); space['f'](comm, x)"
    ),
    "a tensor in flight": "comm.isend(x.new_zeros(NUMBER + 100), (comm.rank + 1) % comm.size); return x",
    "what the ranks return": "return SECRET",
}
CHANNELS = [("train-days-7b", name, body) for name, body in OF_VALUES.items()] + [
    ("ring-shift", name, body) for name, body in OF_RANKS.items()
]


@pytest.fixture(scope="module")
def workers():
    with WorkerPool(chapters=("01", "06"), torch=True) as made:
        yield made


def answer_of(exercise: str, body: str, secret: str, number: int) -> str:
    """The code of an answer whose first function is `body`; the code itself is the same for every secret."""
    first, *others = exercises.card(exercise).answers
    code = "\n".join(f"def {each}(*given, **more):\n    return -1.0" for each in others)
    given = "*given, **more" if exercise == "train-days-7b" else "comm, x, *given"
    return (
        f"{code}\ndef {first}({given}):\n    SECRET, NUMBER = _read()\n    {body}\n",
        f"def _read():\n    return {secret!r}, {number}\n",
    )


def told(workers, exercise: str, body: str, secret: str, number: int, *, closed_words: bool = True) -> str:
    """The report and the page of one answer, without its running time and its code."""
    code, host = answer_of(exercise, body, secret, number)
    steps = (
        Step(do="run", exercise="", source=host, whose="own"),
        Step(do="run", exercise=exercise, source=code, whose="answer"),
        Step(do="judge", exercise=exercise),
    )
    card = exercises.card(exercise)
    (report,) = grade_notebook(
        Submission(steps=steps, exercises=(exercise,)), [card], workers, deciding_ranks=True, closed_words=closed_words
    ).reports
    assert report.points < report.maximum
    page = render(Page(title="", student="", course="", exercises=[Exercise(card=card, report=report)]))
    return json.dumps(report_dict(report) | {"seconds": 0}) + page


@pytest.mark.parametrize(("exercise", "name", "body"), CHANNELS, ids=[name for _, name, _ in CHANNELS])
def test_nothing_that_an_answer_says_depends_on_what_it_saw(workers, exercise, name, body):
    pages = set()
    for secret in SECRETS:
        pages.add(page := told(workers, exercise, body, secret, 100 + ord(secret[-1])))
        assert secret not in page
    assert len(pages) == 1


def test_a_check_of_ones_own_tells_everything(workers):
    """The counterpart of the test above: there the secret would be found, were it told."""
    for body in (OF_VALUES["an exception's message"], OF_VALUES["a returned string"], OF_VALUES["a returned list"]):
        assert "192.0.2" in told(workers, "train-days-7b", body, "192.0.2", 1, closed_words=False)


# ------------------------------------------------------------------------------------------------ what judges quote


def changed(value, path, new):
    """Plain data with another value at a path of indices and keys."""
    if not path:
        return new
    if isinstance(value, dict):
        return {**value, path[0]: changed(value[path[0]], path[1:], new)}
    items = list(value)
    items[path[0]] = changed(items[path[0]], path[1:], new)
    return type(value)(items)


def places(value, path=()):
    """The paths of some places in plain data, with what is there."""
    yield path, value
    inside = list(value.items())[:3] if isinstance(value, dict) else []
    if isinstance(value, (list, tuple)):
        inside = [(at, value[at]) for at in sorted({0, len(value) // 2, len(value) - 1}) if value]
    for key, each in inside:
        yield from places(each, (*path, key))


def said_instead(there):
    """Pairs of values in the place of one: each of a pair would carry another secret out, and both are wrong alike."""
    kind, at = type(there), [0.7351946, 0.7359172]
    if kind in (int, float):
        yield [kind((abs(there) + 7) * 1_000_003 * each) for each in at]
    elif kind is str:
        yield ["/srv/grading-7", "wjqxz"]
    elif kind is dict:
        yield [{**there, word: 1} for word in ("/srv/grading-7", "wjqxz")]
    elif kind in (list, tuple):
        yield [kind([*there, *there[-1:] * (1_234 + each)]) for each in (0, 9)]
        yield [kind(random.Random(each).choices(range(7_000, 7_999), k=len(there))) for each in (1, 2)]
    elif isinstance(there, torch.Tensor) and there.numel():
        yield (
            [there * 0 + 1e5 * each for each in at]
            if there.is_floating_point()
            else [there * 0 + 1_234, there * 0 + 1_235]
        )
        yield [there.new_zeros(0, *[9_001 + each] * 4) for each in (1, 2)]


def long_numbers(messages):
    """The numbers of messages that have more than three digits that count."""
    numbers = re.findall(r"\d[\d,]*(?:\.\d+)?", " ".join(messages))
    return {each for each in numbers if len(re.sub(r"[.,]", "", each).strip("0")) > 3}


QUOTING = [card.id for chapter in ("01", "05", "12") for card in exercises.cards(chapter)]


@pytest.mark.parametrize("exercise", QUOTING)
def test_no_judge_quotes_what_came_back(exercise):
    card = exercises.card(exercise)
    answer = next(each for each in kill_matrix.bank(card.chapter) if (each.exercise, each.sort) == (exercise, "right"))
    resolved = resolve(card, secret="a class's own")
    case = resolved.cases[0]
    outcome = InProcess(*kill_matrix.names_of(answer.source, card.answers)).run(card, case)

    def judged(value, meter):
        other = replace(outcome, value=value, meter=meter)
        with contextlib.suppress(Exception), types_only():  # the report says then that the judge could not read it
            return [v.message for v in decision._judged(resolved, resolved.params, case, other)]
        return []

    pairs = [(path, pair) for path, there in places(outcome.value) for pair in said_instead(there)][:40]
    told = [[judged(changed(outcome.value, path, each), outcome.meter) for each in pair] for path, pair in pairs]
    sent = outcome.meter.get("bytes_sent", [])
    told += [
        [
            judged(outcome.value, {**outcome.meter, "bytes_sent": [size + more for size in sent]})
            for more in (735_194, 735_917)
        ]
    ] * bool(sent)
    for one, other in told:
        assert "grading-7" not in "".join(one) and "wjqxz" not in "".join(other)
        assert not re.search(r"7,?35[19]|1,?2[34]\d", "".join([*one, *other]))
        assert long_numbers(one) == long_numbers(other)


def message_of(text, value, *, params=None, args=()):
    """What a class is told of a judge's message about a returned value."""
    verdict = Verdict(kind="values", part="", ok=False, message=text)
    case, outcome = Case(name="a node of 12,345 MB", args=args), Outcome(state="answered", value=value)
    (closed_one,) = closed_messages([verdict], "01", params or {}, case, outcome)
    return closed_one.message


@each_of(
    "text, value, told",
    ("a node of 12,345 MB: 'srv-7' is wrong.", "srv-7", "a node of 12,345 MB: '…' is wrong."),
    ("got SRV-7 here.", "srv-7", "got …-7 here."),
    ("'memory' is no response.", ["memory"], "'memory' is no response."),
    ("got 7351946 GPUs, 1.23456e-5 of it.", 7351946, "got ≈7,400,000 GPUs, ≈1.2e-05 of it."),
    ("got 735 of 12345 MB.", 735, "got 735 of 12345 MB."),
    ("got 65,537 of 989e12 FLOP/s.", 1, "got 65,537 of 989e12 FLOP/s."),
    ("in float32 of shape (9001, 9002).", 1, "in float32 of shape (≈9,000, ≈9,000)."),
    ("0000735 and 7.3e-99.", 1, "≈740 and …."),
    ("the list 1, 2, 3, 4, 5, 6, 7, 8.", 1, "the list 1, 2, 3, 4, 5, 6, …."),
    ("return 'a', 'b', 'c', 'd', 'e', 'f', 'g'.", "a", "return 'a', 'b', 'c', 'd', 'e', 'f', 'g'."),
    ("!? is wrong; !? is no word.", "!?", "… is wrong; … is no word."),
)
def test_a_message_keeps_what_is_known_and_rounds_or_leaves_out_the_rest(text, value, told):
    assert message_of(text, value, params={"n": 65_537}, args=(989e12,)) == told


WAITS = (
    "No rank can move.\n  rank 1 waits for rank 0: call 3, send of 4 float32, at line 2\n  rank 0 waits for rank "
    "1: call 1, send"
)


def test_who_waits_is_told_where_the_judge_ran_the_ranks():
    told = closed("pass")
    for ranks, lines in ((2, 2), (1, 0), (0, 0)):
        assert told(WAITS, ranks).count("waits for") == lines
    forged = WAITS.replace("rank 0: call", ", ".join(f"rank {n}" for n in range(30, 40)) + ": call")
    assert "30" not in told(forged, 2) and told(forged, 2).count("waits for") == 1
    assert told(WAITS + "\nThey wait for each other in a cycle: 1 → 77 → 1.", 2).count("77") == 0
    at = "a line\nNo rank can move.\n  rank 1 waits for rank 0: call 77, send"
    assert "77" not in told(f"ValueError: {at}", 2)


PIECES = st.one_of(
    st.sampled_from(sorted(KINDS) + sorted(SENTENCES)),
    st.sampled_from(
        [
            "No rank can move.",
            "rank 3 wrote to",
            "rank 1 waits for rank 2: call 3, send",
            "rank 1 waits for rank 2: call 3, ",
            "\n",
            ": ",
            "line 2: ",
        ]
    ),
    st.from_regex(r"rank [0-9]{1,6} (raised|waits for) \w{1,20}: ", fullmatch=True),
    st.from_regex(r"[a-z]{4,9}_[a-z_]{3,20}", fullmatch=True),
    st.from_regex(r"line [0-9]{1,9}", fullmatch=True),
    st.text(max_size=30),
)
WORDS = set(re.findall(r"\w+", " ".join([*KINDS, *SENTENCES.values(), OWN_KIND, REST]).lower())) | set(
    re.findall(
        r"\w+",
        "no rank can move waits for they wait each other in a cycle call send isend recv irecv batch_isend_irecv "
        "all_reduce reduce barrier broadcast gather scatter all_gather all_gather_into_tensor reduce_scatter_tensor "
        "all_to_all_single new_group raised wrote to read never waited one of its calls tensor flight line the cell",
    )
)


@given(st.lists(PIECES, max_size=12).map("".join))
def test_whatever_a_worker_says_only_words_of_the_list_and_small_numbers_are_told(text):
    said = closed("def f():\n    pass\n")(text)
    found = re.findall(r"\w+", said.lower())
    assert {each for each in found if not each.isdigit()} <= WORDS
    assert all(int(each) < 100 for each in found if each.isdigit()) and len(said) < 1_200


@each_of("line", [1, 3])
def test_a_line_is_told_where_the_answer_has_so_many(line):
    said = closed("def f():\n    pass\n    return 3")(f"ValueError: secret (line {line} of your cell: secret)")
    assert said == f"ValueError, line {line} of the cell. {REST}"
    assert closed("pass")(f"ValueError: secret (line {line + 1} of your cell)") == f"ValueError. {REST}"
