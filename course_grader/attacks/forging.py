"""Forging a score: objects that agree with everything, patched libraries, forged messages, code that knows it is
judged."""

from course_grader.attacks.sheet import Sheet, attack

# Finds the worker's channel, and the token of the request that is being answered.
CHANNEL = """
import os, socket, struct, sys


def channel(frames=None):
    for frame in frames or [sys._getframe()]:
        found = token = None
        while frame:
            for value in list(frame.f_locals.values()):
                if type(value).__name__ == "Worker":
                    found = found or value.channel
            token = token or frame.f_locals.get("token")
            frame = frame.f_back
        if found and token:
            return found, token
    raise RuntimeError("no channel")


RIGHT = {"state": "answered", "value": [[1.0]], "error": "", "trace": "", "output": "", "seconds": 0.0,
         "points": 10.0, "passed": True, "verdicts": [{"kind": "values", "part": "days", "ok": True}]}
"""


AGREES = """
class Yes:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __lt__
    def __bool__(self): return True
    def __float__(self): return 0.0
    def __int__(self): return 0
    __index__ = __int__
    def __hash__(self): return 0
    def __sub__(self, other): return 0.0
    __rsub__ = __add__ = __radd__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __abs__ = __sub__
    def __len__(self): return 1
    def __iter__(self): return iter([self])
    def __getattr__(self, name): return self
    def __call__(self, *a, **k): return self
"""


# ------------------------------------------------------------------------------------------------ objects


@attack("forging")
def object_that_equals_everything(sheet: Sheet) -> None:
    """An object whose comparisons and arithmetic always agree."""
    sheet.answer(f"{AGREES}\ndef attempt(*args):\n    return Yes()")


@attack("forging", chapter="00")
def tensor_with_a_torch_function(sheet: Sheet) -> None:
    """A subclass of Tensor whose `__torch_function__` says True to every comparison."""
    sheet.answer("""
        class Agrees(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                return True


        def attempt(comm, x):
            return x.as_subclass(Agrees)""")


@attack("forging")
def patched_check(sheet: Sheet) -> None:
    """`check`, the judge's own functions and its modules are replaced by ones that give full points."""
    sheet.stub()
    sheet.own("""
        import sys, types, course_lib, course_app.notebook, course_grader.records

        full = lambda *a, **k: 10.0
        check = course_lib.check = course_app.notebook.check = course_app.notebook._judged = full
        for name in ("course_grader.judge", "course_grader.judge.decision", "course_grader.judge.result_panel",
                "course_grader.judging"):
            fake = sys.modules[name] = types.ModuleType(name)
            fake.grade = fake.judging = fake.near = fake.is_number = full
        course_grader.records.Verdict = course_grader.records.Report = full""")


@attack("forging")
def answers_from_the_frames(sheet: Sheet) -> None:
    """The expected value is looked for in every frame, every thread and every object."""
    sheet.answer("""
        import gc, sys, threading

        WORDS = ("want", "expected", "oracle", "solution", "truth", "right", "reference")


        def attempt(*args):
            frames = list(sys._current_frames().values()) + [sys._getframe()]
            while frames:
                frame = frames.pop()
                for name, value in list(frame.f_locals.items()):
                    if name in WORDS and isinstance(value, float):
                        return value
                frames += [frame.f_back] if frame.f_back else []
            for each in gc.get_objects():
                if isinstance(each, dict) and any(word in each for word in WORDS if isinstance(word, str)):
                    found = next((each[word] for word in WORDS if isinstance(each.get(word), float)), None)
                    if found is not None:
                        return found
            return 0.0""")


@attack("forging")
def outputs_that_claim_points(sheet: Sheet) -> None:
    """Saved outputs, scores and reports in the file claim that everything was passed."""
    sheet.stub()
    score = {"output_type": "execute_result", "execution_count": 1, "metadata": {}, "data": {"text/plain": "10.0"}}
    for cell in sheet.notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = [score]
            cell["metadata"]["course_report"] = {"points": 10, "passed": True}
    sheet.notebook["metadata"]["course"] = {
        "chapter": "01",
        "points": 100,
        "key": "0" * 64,
        "params": {},
        "contract": "0",
    }


@attack("forging", before=CHANNEL)
def process_that_takes_the_seat(sheet: Sheet) -> None:
    """A child keeps the connection, the worker ends, and the child answers in its stead."""
    sheet.own("""
if os.fork():
    os._exit(0)
there, token = channel()
there.send(token, {"state": "answered", "error": "", "trace": ""})
while True:
    token, request = there.receive()
    count = len(request.get("names", ()))
    there.send(token, {**RIGHT, "there": [True] * count, "own": [True] * count, "status": 0,
        "value": request.get("args")})""")
    sheet.stub()
    sheet.expect("mfu-waste", None)


@attack("forging", chapter="06")
def answer_to_a_run_without_running(sheet: Sheet) -> None:
    """Whole runs are claimed in frames of the grader, where the cluster's kernel waits for requests."""
    sheet.own(
        CHANNEL
        + """
import course_grader.remote_ranks.remote_worker as remote, course_grader.worker.notebook_worker as worker


def claim(sock, program):
    there = type("There", (), {})()
    data = worker.encode({**RIGHT, "meter": {"bytes_sent": [0] * 8, "bytes_received": [0] * 8}, "results": [None] * 8})
    sock.sendall(struct.pack("<I", len(data)) + data)
    return ""


remote.serve_ranks = claim"""
    )
    sheet.answer("def attempt(comm, x):\n    return x", states=("refused", "timed out", "crashed", "raised"))
    sheet.expect("pair-exchange", None)
