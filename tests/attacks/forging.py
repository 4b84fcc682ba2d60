"""Forging a score: objects that agree with everything, patched libraries, forged messages, code that knows it is
judged."""

import json

from course_grader.attacks.forging import AGREES, CHANNEL
from course_grader.attacks.sheet import Sheet, attack, code
from course_grader.notebooks import grade_meta


@attack("forging")
def float_that_equals_everything(sheet: Sheet) -> None:
    """A subclass of float whose comparisons and differences always agree."""
    sheet.answer("""
        class Near(float):
            def __eq__(self, other): return True
            def __sub__(self, other): return 0.0
            __rsub__ = __truediv__ = __rtruediv__ = __sub__
            def __abs__(self): return 0.0
            def __lt__(self, other): return True
            __le__ = __gt__ = __ge__ = __lt__
            __hash__ = float.__hash__


        def attempt(*args):
            return Near(1.0)""")


@attack("forging")
def builtin_subclasses_that_lie(sheet: Sheet) -> None:
    """Subclasses of int, str, list, tuple and dict that lie about length, items and equality."""
    sheet.answer("""
        def lying(kind):
            return type(kind.__name__, (kind,),
                {"__eq__": lambda *a: True, "__len__": lambda *a: 1, "__hash__": lambda *a: 0,
                                                 "__iter__": lambda *a: iter([True]), "__getitem__": lambda *a: True})


        calls = []


        def attempt(*args):
            calls.append(1)
            return [lying(int)(3), lying(str)("3"), lying(list)([1]), lying(tuple)([1]),
                lying(dict)(a=1)][len(calls) % 5]""")


@attack("forging", chapter="00")
def tensor_class_that_lies(sheet: Sheet) -> None:
    """A class that says it is torch.Tensor, with shape, dtype and bytes as asked."""
    sheet.answer("""
        class Fake:
            __class__ = torch.Tensor
            dtype, layout, is_meta, is_cpu, requires_grad = torch.float32, torch.strided, False, True, False
            def __init__(self, x): self.shape = x.shape
            def __getattr__(self, name): return lambda *a, **k: self
            def __eq__(self, other): return True


        Fake.__module__, Fake.__name__ = "torch", "Tensor"


        def attempt(comm, x):
            return Fake(x)""")


@attack("forging")
def objects_of_the_judge(sheet: Sheet) -> None:
    """The judge's own records, full of passed verdicts, as an answer."""
    sheet.answer("""
        from course_grader.records import Outcome, Report, Verdict


        def attempt(*args):
            passed = Verdict(kind="values", part="days", ok=True)
            return Report(exercise="train-days-7b", state="answered", points=10.0, maximum=10.0, verdicts=(passed,))""")


@attack("forging")
def numbers_that_are_none(sheet: Sheet) -> None:
    """NaN, infinities, booleans, texts and nothing, in turn, where a number is asked for."""
    sheet.answer("""
        calls = []
        odd = [float("nan"), float("inf"), -float("inf"), True, False, "0", "nan", None, [], {}, (), 0.0, -0.0, 1e308,
            5e-324, [[1.0]]]


        def attempt(*args):
            calls.append(1)
            return odd[len(calls) % len(odd)]""")


def _constants(value: str) -> str:
    return f"def attempt(*args, **kwargs):\n    return {value}\n"


_MOST = ("state-13b", "train-days-7b", "which-peak", "years-to-weeks", "first-wall", "audit-one-step")


@attack("forging", exercises=_MOST)
def nan_everywhere(sheet: Sheet) -> None:
    """NaN as the answer to every exercise of a chapter: no comparison is ever false enough."""
    for each in _MOST:
        sheet.answer(_constants("float('nan')"), each)


@attack("forging", exercises=_MOST)
def infinity_everywhere(sheet: Sheet) -> None:
    """Infinity as the answer to every exercise of a chapter: every bound is below it."""
    for each in _MOST:
        sheet.answer(_constants("(float('inf'), float('inf'))"), each)


@attack("forging", exercises=_MOST)
def empty_everywhere(sheet: Sheet) -> None:
    """Empty lists and dictionaries as the answer to every exercise: nothing to compare."""
    for at, each in enumerate(_MOST):
        sheet.answer(_constants(("[]", "{}", "()", "''")[at % 4]), each)


@attack(
    "forging",
    exercises=(
        "pair-exchange",
        "ring-shift",
        "reduce-scatter-half",
        "hang-repair",
        "all-to-all-sizes",
        "equal-up-to-rounding",
    ),
    chapter="06",
)
def own_tensor_everywhere(sheet: Sheet) -> None:
    """Every rank returns what it was given: right only where nothing has to be said."""
    for each in sheet.points:
        sheet.answer("def attempt(*args):\n    return args[1] if len(args) == 2 else args[1:]", each)


@attack("forging", exercises=("pair-exchange", "ring-shift", "reduce-scatter-half", "ring-all-reduce"), chapter="06")
def nan_tensors_everywhere(sheet: Sheet) -> None:
    """Tensors of NaN in the right shape: no difference is ever too large."""
    for each in sheet.points:
        sheet.answer(
            "def attempt(comm, x):\n    return torch.full_like(x.double(), float('nan')).to(x.dtype) if "
            "x.is_floating_point() else x * 0",
            each,
        )


# ------------------------------------------------------------------------------------------------ patched libraries


@attack("forging")
def patched_builtins(sheet: Sheet) -> None:
    """abs, all, any, isinstance, len, max, float and sorted always say what suits."""
    sheet.stub()
    sheet.expect("mfu-waste", None)  # it runs behind broken builtins
    sheet.own("""
        import builtins

        for name in ("abs", "all", "any", "max", "min", "float", "sorted", "len"):
            setattr(builtins, name, lambda *a, **k: True)
        builtins.isinstance = lambda *a: True""")


@attack("forging", chapter="00")
def patched_torch_comparisons(sheet: Sheet) -> None:
    """torch.equal, allclose, isclose, Tensor.__eq__ and testing always agree."""
    sheet.own("""
        import torch.testing

        torch.equal = torch.allclose = torch.Tensor.equal = torch.Tensor.allclose = lambda *a, **k: True
        torch.testing.assert_close = lambda *a, **k: None
        torch.Tensor.__eq__ = torch.isclose = lambda a, b, **k: torch.ones(a.shape, dtype=torch.bool)""")
    sheet.answer("def attempt(comm, x):\n    return x * 0")
    sheet.expect("token-round-the-ring", None)


@attack("forging")
def patched_serialisers(sheet: Sheet) -> None:
    """struct, json, pickle, socket and os are replaced before the answer is sent."""
    sheet.answer("""
        import json, os, pickle, socket, struct


        def attempt(*args):
            json.dumps = json.loads = pickle.dumps = pickle.loads = lambda *a, **k: b'{"points": 10, "passed": true}'
            os.write = os._exit = lambda *a, **k: None
            struct.pack = struct.unpack = lambda *a, **k: b""
            return 10.0""")


@attack("forging")
def patched_codec(sheet: Sheet) -> None:
    """The worker's codec writes a passed report in place of every answer."""
    sheet.answer("""
        import course_grader.remote_ranks.codec as codec, course_grader.worker.protocol as channel
        import course_grader.worker.notebook_worker as worker

        true = codec.encode
        PASSED = {"state": "answered", "value": float("nan"), "points": 10.0, "passed": True, "verdicts": [],
            "error": "", "trace": "",
                  "output": "", "seconds": 0.0}


        def attempt(*args):
            channel.encode = worker.encode = codec.encode = lambda value: true(PASSED if "state" in value else value)
            return 1.0""")


@attack("forging")
def patched_probe(sheet: Sheet) -> None:
    """The worker's probe and card are replaced: the exercise's arguments become its answer."""
    sheet.answer("""
        import course_grader.exercises as exercises, course_grader.exercises.probes as probes
        import course_grader.worker.notebook_worker as worker

        fake = lambda answers, case, comm=None: case.args
        probes.rows.__code__ = fake.__code__
        records = __import__("course_grader.records").records
        worker.run_probe = lambda card, case, answer: records.Outcome(state="answered", value=case.args)


        def attempt(*args):
            return 1.0""")
    sheet.expect("mfu-waste", None)


@attack("forging", chapter="06", states=("answered", "raised", "crashed", "deadlock", "refused"))
def codec_by_ctypes(sheet: Sheet) -> None:
    """Type flags and reference counts of None, True and small integers are overwritten through ctypes."""
    sheet.answer("""
        import ctypes


        def attempt(comm, x):
            ctypes.c_ubyte.from_address(id(77) + 24).value = 5
            ctypes.c_long.from_address(id(1.5) + 16).value = 0
            return x""")


# --------------------------------------------------------------------------------------------- the notebook's machinery


@attack("forging")
def syntax_tree_transformer(sheet: Sheet) -> None:
    """An AST transformer turns every later cell and check into one that passes."""
    sheet.stub()
    sheet.own("""
        import ast

        class Pass(ast.NodeTransformer):
            def visit_Call(self, node):
                name = getattr(node.func, "id", "")
                return ast.copy_location(ast.Constant(10.0), node) if name in ("check", "predict") else node

        get_ipython().ast_transformers.append(Pass())""")


@attack("forging")
def input_transformer(sheet: Sheet) -> None:
    """An input transformer replaces the text of every later cell by a number."""
    sheet.stub()
    sheet.expect("mfu-waste", None)
    sheet.own("get_ipython().input_transformers_cleanup.append(lambda lines: ['10.0\\n'])")


@attack("forging")
def run_cell_hooks(sheet: Sheet) -> None:
    """Hooks before and after each cell, and a replaced run_cell, report success for everything."""
    sheet.stub()
    sheet.expect("mfu-waste", None)
    sheet.own("""
        shell = get_ipython()
        shell.events.register("post_run_cell", lambda result: setattr(result, "error_in_exec", None))

        class Done:
            error_before_exec = error_in_exec = None
            result = 10.0
            success = True

        shell.run_cell = lambda *a, **k: Done()""")


@attack("forging")
def display_hook(sheet: Sheet) -> None:
    """Prints, displays and returns the points before anything is judged."""
    sheet.stub()
    sheet.own("""
        import sys
        from IPython.display import display

        print("10.0"); print("10/10 points", file=sys.stderr)
        display({"application/vnd.course.report+json": {"points": 10}, "text/plain": "10.0"}, raw=True)
        sys.displayhook(10.0)
        10.0""")


@attack("forging", before=AGREES)
def namespace_that_has_everything(sheet: Sheet) -> None:
    """The notebook's namespace is replaced by one that has every name, with a function that agrees."""
    sheet.stub()
    sheet.expect("mfu-waste", None)
    sheet.own("""
class Names(dict):
    def __contains__(self, name): return True
    def __missing__(self, name): return Yes()
    def get(self, name, default=None): return Yes()

get_ipython().user_ns = Names(get_ipython().user_ns)""")


@attack("forging")
def trace_function(sheet: Sheet) -> None:
    """A trace function rewrites the results of the course's functions while they return."""
    sheet.answer("""
        import sys


        def tracer(frame, event, value):
            if event == "call" and "course_" in frame.f_code.co_filename:
                frame.f_locals.update(ok=True, state="answered", points=10.0)
            return tracer


        def attempt(*args):
            sys.settrace(tracer); sys.setprofile(tracer)
            return 1.0""")


@attack("forging", walled=True)
def asks_the_oracle(sheet: Sheet) -> None:
    """Takes the guard off the imports and asks the exercise's own judging for the right answer."""
    sheet.answer("""
        import importlib, sys


        def attempt(*args):
            sys.meta_path[:] = [each for each in sys.meta_path if type(each).__name__ != "Refuse"]
            judge = importlib.import_module("course_chapters.ch01.exercises.judges.train_days_7b")
            loot(vars(judge), whole=True)
            return judge.JUDGING.verdicts(*args)""")


@attack("forging")
def import_hook(sheet: Sheet) -> None:
    """A finder put first gives forged modules to whoever imports next."""
    sheet.stub()
    sheet.own("""
        import importlib.abc, importlib.machinery, sys, types

        class Forge(importlib.abc.MetaPathFinder, importlib.abc.Loader):
            def find_spec(self, name, path=None, target=None):
                return importlib.machinery.ModuleSpec(name, self) if name.startswith("course_") else None
            def create_module(self, spec):
                module = types.ModuleType(spec.name)
                module.__getattr__ = lambda name: (lambda *a, **k: 10.0)
                return module
            def exec_module(self, module): pass

        sys.meta_path.insert(0, Forge())
        for name in [name for name in sys.modules if name.startswith("course_grader.exercises")]:
            del sys.modules[name]""")
    sheet.expect("mfu-waste", None)


# ------------------------------------------------------------------------------------------------ the notebook file


@attack("forging")
def check_cell_of_its_own(sheet: Sheet) -> None:
    """The check cell is rewritten to show full points, and worth a thousand."""
    sheet.stub()
    cell = sheet.cell(f"{sheet.target}-check")
    cell["source"] = "10.0"
    cell["metadata"]["nbgrader"]["points"] = 1000


@attack("forging")
def answer_marked_as_graded(sheet: Sheet) -> None:
    """The unanswered cell calls itself a graded, locked test with points."""
    sheet.stub()
    sheet.cell(sheet.target)["metadata"]["nbgrader"] |= {"grade": True, "locked": True, "points": 10, "task": False}
    sheet.expect(sheet.target, 0.0)


@attack("forging")
def extra_exercises(sheet: Sheet) -> None:
    """Cells with invented grade_ids and points, and a copy of a passed check under another exercise's id."""
    sheet.stub()
    for name, source in (
        ("bonus-check", "100.0"),
        (f"{sheet.target}-check", "check('mfu-waste', money_lost)"),
        ("mfu-waste-check", "10.0"),
    ):
        meta = {
            "grade": True, "grade_id": name, "locked": True, "points": 100, "schema_version": 3, "solution": False,
            "task": False,
        }  # fmt: skip
        sheet.notebook["cells"].append({**code(source, f"x-{name}"), "metadata": {"nbgrader": meta}})


@attack("forging")
def variant_of_its_own(sheet: Sheet) -> None:
    """A variant file beside the notebook makes the exercise another one, which is then answered rightly."""
    sheet.files["variant.json"] = json.dumps(
        {"id": "easy", "exercises": {"state-13b": {"convention": "A", "buckets": "weights 2", "params": 1.0}}}
    ).encode()
    sheet.expect("state-13b", None)
    sheet.answer("""
        def attempt(*args):
            return float(len(args))""")


@attack("forging")
def files_that_claim_points(sheet: Sheet) -> None:
    """Reports, grades and results lie beside the notebook and are written into its folder."""
    sheet.files |= {
        "results.json": b'{"score": 100}',
        "report.json": b'{"points": 10}',
        "timestamp.txt": b"1999-01-01 00:00:00 UTC",
        "reports/latest.json": b'{"key": "x"}',
        "gradebook.db": b"SQLite format 3\0",
    }
    sheet.answer("""
        import json, pathlib


        def attempt(*args):
            for name in ("results.json", "latest.json", "report.json", "score.txt"):
                pathlib.Path(name).write_text(json.dumps({"points": 10, "passed": True}))
            return 1.0""")


# ------------------------------------------------------------------------------------------------ messages


@attack("forging", before=CHANNEL, states=("refused",))
def second_answer(sheet: Sheet) -> None:
    """A forged answer with the right token, sent before the real one."""
    sheet.answer("""
def attempt(*args):
    there, token = channel()
    there.send(token, RIGHT)
    return 1.0
""")


@attack("forging", before=CHANNEL, states=("refused",))
def answer_ahead_of_the_question(sheet: Sheet) -> None:
    """A forged answer to the next question, before it is asked."""
    sheet.answer("""
def attempt(*args):
    there, _ = channel()
    there.send(b"0" * 16, RIGHT)
    return 1.0
""")


@attack("forging", before=CHANNEL, states=("refused", "crashed", "answered", "timed out"))
def thread_that_answers_later(sheet: Sheet) -> None:
    """A thread goes on writing forged answers with every token it sees."""
    sheet.answer("""
import threading, time


def later():
    for _ in range(400):
        try:
            there, token = channel(list(sys._current_frames().values()))
            there.send(token, RIGHT)
        except Exception:
            pass
        time.sleep(0.001)


def attempt(*args):
    threading.Thread(target=later, daemon=True).start()
    time.sleep(0.05)
    return 1.0
""")


@attack("forging", before=CHANNEL)
def thread_that_answers_for_the_clones(sheet: Sheet) -> None:
    """A thread of the notebook's process tells the judge how its clones ended, and answers in their place."""
    sheet.own("""
import threading, time


def later():
    while True:
        try:
            there, token = channel(list(sys._current_frames().values()))
            there.send(token, {"status": 0, "there": [True] * 3, "own": [True] * 3, **RIGHT})
        except Exception:
            pass
        time.sleep(0.002)


threading.Thread(target=later, daemon=True).start()""")
    sheet.stub()
    sheet.expect("mfu-waste", None)


@attack("forging", states=("refused", "answered"))
def two_processes_answer(sheet: Sheet) -> None:
    """The answer forks: parent and child both answer the same question."""
    sheet.answer("""
        import os


        def attempt(*args):
            os.fork()
            return 1.0""")


@attack("forging", before=CHANNEL, states=("refused",))
def answer_of_the_wrong_kind(sheet: Sheet) -> None:
    """A list, a number and a text where the judge expects a dictionary, then an exit."""
    sheet.answer("""
def attempt(*args):
    there, token = channel()
    there.send(token, [10.0, "passed"])
    os._exit(0)
""")


@attack("forging", before=CHANNEL, states=("refused",))
def state_that_no_answer_has(sheet: Sheet) -> None:
    """The worker says that it passed, in words that only the judge may use."""
    sheet.answer("""
def attempt(*args):
    there, token = channel()
    there.send(token, {**RIGHT, "state": "passed"})
    os._exit(0)
""")


@attack("forging", before=CHANNEL, states=("refused",))
def fields_of_the_wrong_type(sheet: Sheet) -> None:
    """Error, trace, output and seconds hold dictionaries, tensors of meters and infinities."""
    sheet.answer("""
def attempt(*args):
    there, token = channel()
    there.send(token, {**RIGHT, "error": {"points": 10}, "seconds": float("inf"), "meter": {"bytes_sent": [0]}})
    os._exit(0)
""")


# ------------------------------------------------------------------------------------------------ knowing the judge


@attack("forging")
def knows_that_it_is_judged(sheet: Sheet) -> None:
    """The answer behaves only where it is judged, and looks there for what to say."""
    sheet.answer("""
        import os, sys


        def attempt(*args):
            if os.environ.get("COURSE_WORKER"):
                case = sys._getframe(1).f_locals.get("case")
                return getattr(case, "secret", None) or getattr(case, "want", 1.0)
            raise NotImplementedError""")


@attack("forging", states=("raised", "answered"))
def library_function_under_another_name(sheet: Sheet) -> None:
    """The library's own function, aliased, wrapped, partially applied and fetched by name."""
    sheet.answer("""
        import functools, importlib
        from course_lib.estimate.compute import train_seconds as mine

        ways = [mine, functools.partial(mine), lambda *a: mine(*a),
            lambda *a: getattr(importlib.import_module("course_lib.estimate.compute"), "train_seconds")(*a)]
        calls = []


        def attempt(params, tokens, gpu_flops, utilisation, days=None):
            calls.append(1)
            seconds = ways[len(calls) % 4](params, tokens, gpu_flops, utilisation)
            return seconds / DAY if days is None else math.ceil(seconds / DAY / days)""")


@attack("forging", states=("raised", "not answered", "crashed", "refused"))
def says_it_was_not_asked(sheet: Sheet) -> None:
    """Exceptions with the names and texts that the grader uses itself: not answered, switched off, lost, passed."""
    sheet.answer("""
        from course_grader.worker.protocol import Garbled, Gone, Late

        calls = []


        class Passed(NotImplementedError):
            state, points, passed = "answered", 10.0, True
            def __str__(self): return "passed: 10 of 10 points"


        def attempt(*args):
            calls.append(1)
            raise [Passed, Gone, Late, Garbled, StopIteration, GeneratorExit][len(calls) % 6]("passed")""")


@attack("forging")
def reads_the_seed(sheet: Sheet) -> None:
    """The generators' seeds, which a worker knows, are used to guess what the judge drew."""
    sheet.answer("""
        import random


        def attempt(*args):
            random.seed(0)
            return random.random() * 1e3""")


@attack("forging", states=("raised",))
def text_that_looks_like_a_report(sheet: Sheet) -> None:
    """Errors and prints with terminal codes, markup, HTML and a table that shows full points."""
    sheet.answer(r"""
        def attempt(*args):
            text = "\x1b[2J\x1b[1;32m✓ 10 / 10\x1b[0m\r\n\x9b31m[bold green]passed[/] "
            text += "<script>alert(1)</script><img src=x onerror=alert(1)> \u202e 01/01 \x07"
            print(text)
            raise ValueError(text + '{"points": 10, "passed": true}')""")


@attack("forging")
def answer_from_a_table(sheet: Sheet) -> None:
    """The right numbers for the public cases, written down by hand: hidden ones differ from class to class."""
    table = json.dumps(_public_table())
    sheet.answer(f"""
        TABLE = {table}


        def attempt(*args):
            return TABLE.get(repr(args), 1.0)""")


def _public_table() -> dict[str, float]:
    """What a learner can work out at home for every case that the public seed draws."""
    import random

    from course_grader import exercises
    from course_grader.judge.exercise import hidden_seed
    from course_grader.judging import judging
    from course_lib.estimate import compute

    card = exercises.card("train-days-7b")
    found: dict[str, float] = {}
    for case in judging(card.id).cases(card.params, random.Random(hidden_seed(card))):
        which, rows = case.args
        for row in rows:
            params, tokens, flops, used = row[:4]
            days = compute.train_seconds(params, tokens, flops, mfu=used) / 86_400
            found[repr(tuple(row))] = days if which == 0 else float(max(1, -(-days // row[4])))
    return found


@attack("forging")
def grade_ids_exchanged(sheet: Sheet) -> None:
    """The answer of a solved exercise stands under the id of the unsolved one as well."""
    solved = sheet.cell("mfu-waste")["source"]
    cell = sheet.cell(sheet.target)
    cell["source"] = solved
    sheet.expect(sheet.target, 0.0)
    assert grade_meta(cell)["grade_id"] == sheet.target
