"""What a chapter calls: check, hint, predict, answer, params, use. They show panels, return plain values and never
raise."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from course_app import unrun_cells
from course_grader.exercises import VARIANT_FILE, Card, Params, card
from course_grader.records import Report
from course_lib.folders import ROOT
from course_lib.installation import called_here

if TYPE_CHECKING:
    from course_grader.judge import Exercise

_passed: dict[str, tuple[object, ...]] = {}  # exercise id -> the answers that passed in this kernel
_hints_seen: dict[str, int] = {}
_HIDDEN_ROW = "<style>.jp-OutputArea-executeResult:has(.course-points){display:none}</style>"


class Points(float):
    """What `check` returns: a number that nbgrader reads as the cell's result. The panel already shows it, so the
    notebook hides its row."""

    def _repr_html_(self) -> str:
        return f'{_HIDDEN_ROW}<span class="course-points" hidden>{float(self)!r}</span>'


def params(exercise: str) -> SimpleNamespace:
    """The numbers of this learner's variant of an exercise: from `variant.json` beside the notebook, else canonical."""
    return SimpleNamespace(**_values(card(exercise)))


def check(exercise: str, *answers: object, unseen: bool | None = None) -> float:
    """Judge an answer here and now, show why, and return its points (a float between 0 and the exercise's points).

    Keep it the cell's last expression. Visible cases run first, then the unseen ones. Never raises.
    """
    return _judged(exercise, answers, unseen is not False)


def predict(exercise: str, interval: object) -> float:
    """Judge a prediction: points for an interval (low, high) at most a factor 4 wide, whether or not it holds the
    truth.

    Shows the truth afterwards and keeps the learner's own calibration.
    """
    return _judged(exercise, (interval,), True, reveal=True)


def hint(exercise: str) -> None:
    """Show the next of an exercise's three hints: a question, a sketch, near-code."""
    try:
        asked = card(exercise)
    except ValueError as error:
        return _say(str(error))
    seen = _hints_seen[exercise] = min(_hints_seen.get(exercise, 0) + 1, len(asked.hints))
    shown = "\n\n".join(f"**Hint {n} of {len(asked.hints)}.** {text}" for n, text in enumerate(asked.hints[:seen], 1))
    if seen == len(asked.hints):
        shown += f"\n\nThat was the last one. `answer({exercise!r})` shows the worked answer."
    _say(shown)


def answer(exercise: str) -> None:
    """Show the worked answer, why it is right and where PyTorch does it: after a pass, or after three hints."""
    try:
        asked = card(exercise)
    except ValueError as error:
        return _say(str(error))
    left = len(asked.hints) - _hints_seen.get(exercise, 0)
    if exercise not in _passed and not _has_passed_before(exercise) and left > 0:
        plural = "" if left == 1 else "s"
        return _say(f"The worked answer opens after a pass, or after {left} more hint{plural}: `hint({exercise!r})`.")
    try:
        from course_grader.judging import judging

        contract = judging(exercise)
    except ImportError:
        return _say("The worked answers of this course are with your instructor.")
    source = worked_source(asked)
    code = f"```python\n{source}\n```\n\n" if source else ""
    pytorch = f"\n\n**In PyTorch.** {contract.pytorch}" if contract.pytorch else ""
    _say(f"{code}**Why.** {contract.why}{called_here(pytorch)}")


def use(exercise: str, mine: Callable[..., object], library: Callable[..., object]) -> Callable[..., object]:
    """The learner's function once it has passed its check in this kernel, else the library's; says which."""
    own = any(mine is each for each in _passed.get(exercise, ()))
    _say(
        f"The cells below use {'**your**' if own else 'the library’s'} "
        f"`{library.__name__ if not own else mine.__name__}`."
    )
    return mine if own else library


def worked_source(asked: Card) -> str:
    """The code of an exercise's answer cell in the course's sources; "" where the sources are not here."""
    root = ROOT / "solutions"
    for path in sorted(root.glob(f"{asked.chapter}_*/*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            meta = cell.get("metadata", {}).get("nbgrader", {})
            if meta.get("grade_id") == asked.id and meta.get("solution"):
                text = "".join(cell["source"])
                return "\n".join(line for line in text.splitlines() if "### " not in line).strip()
    return ""


def _judged(exercise: str, answers: tuple[object, ...], unseen: bool, reveal: bool = False) -> float:
    try:
        asked = card(exercise)
    except ValueError as error:
        _say(str(error))
        return Points(0)
    if os.environ.get("COURSE_WORKER"):  # the judge stands outside and asks for itself
        return Points(0)
    try:
        from course_grader.judge import decide, explain, resolve
        from course_grader.worker.runners import InProcess

        resolved, runner = resolve(asked, _values(asked), unseen=unseen), InProcess(*answers)
        report = explain(resolved, runner, decide(resolved, runner))
    except KeyboardInterrupt:
        _say(
            "You stopped the check before it had finished. If it seemed to take forever, look for a loop in your "
            "answer that does not end. Then run the cell again."
        )
        return Points(0)
    except ImportError as error:
        _say(f"This copy of the course cannot judge {exercise!r} here ({error}); it is judged when you hand it in.")
        return Points(0)
    except Exception as error:  # our own fault, never the learner's: say so and let Run All go on
        _say(f"The check itself failed ({type(error).__name__}: {error}). Please report it; your work is untouched.")
        return Points(0)
    old = unrun_cells.outdated(asked.answers)
    extra = "\n".join(filter(None, (_after(resolved, report, answers, reveal), report.slow, old)))
    _show(asked, report, extra)
    return Points(report.points)


def _after(resolved: "Exercise", report: Report, answers: tuple[object, ...], reveal: bool) -> str:
    """Remember what was passed, and say what a prediction was worth."""
    from course_grader.judge.report import progress_entry

    asked, contract = resolved.card, resolved.contract
    truth = contract.truth(resolved.params) if reveal and contract.truth is not None else None
    extra = ""
    if report.passed:
        _passed[asked.id] = answers
        if reveal and contract.reveal is not None:
            extra = contract.reveal(resolved.params)
    try:
        from course_app.learner import progress

        progress.record(progress_entry(report, asked, truth))
    except (ImportError, OSError):  # progress is a convenience: never let it spoil a check
        pass
    return extra


def _has_passed_before(exercise: str) -> bool:
    try:
        from course_app.learner import progress

        return bool(progress.load().get("exercises", {}).get(exercise, {}).get("passed"))
    except (ImportError, OSError, ValueError):
        return False


def _values(asked: Card) -> Params:
    """The parameters of this learner's variant, from the variant file where there is one."""
    path = Path(VARIANT_FILE)
    if path.is_file():
        given = json.loads(path.read_text(encoding="utf-8")).get("exercises", {}).get(asked.id, {})
        return {**asked.params, **given}
    return asked.params


def _say(markdown: str) -> None:
    """Show Markdown in a notebook, plain text elsewhere."""
    if "IPython" in sys.modules and _in_kernel():
        from IPython.display import Markdown, display

        from course_grader.exercises.placeholders import keep_dollars

        display(Markdown(keep_dollars(markdown)))
    else:
        _print(markdown.replace("**", "").replace("`", ""))


def _print(text: str) -> None:
    from course_app.install.streams import show_every_character

    show_every_character()
    print(text)


def _show(asked: Card, report: Report, extra: str) -> None:
    from course_grader.judge.result_panel import html_panel, text_panel

    plain_text = text_panel(asked, report, extra)
    if not ("IPython" in sys.modules and _in_kernel()):
        _print(plain_text)
        return
    from IPython.display import display

    display({"text/html": html_panel(asked, report, extra), "text/plain": plain_text}, raw=True)
    _help_button(asked, report.passed)


def _help_button(asked: Card, passed: bool) -> None:
    """One button under the panel, where the front end has widgets: each hint in turn, then the worked answer."""
    try:
        import ipywidgets
    except ImportError:
        return
    button = ipywidgets.Button(layout=ipywidgets.Layout(width="auto", align_self="flex-start", margin="0.3em 0"))
    place = ipywidgets.Output()

    def is_open() -> bool:
        return passed or _hints_seen.get(asked.id, 0) >= len(asked.hints)

    def name() -> None:
        seen = _hints_seen.get(asked.id, 0)
        button.description = "Worked answer" if is_open() else "Next hint" if seen else "Hint"
        button.icon = "key" if is_open() else "lightbulb-o"
        button.tooltip = (
            f"Show the worked answer of {asked.id}, why it is right, and where PyTorch does it"
            if is_open()
            else f"Show hint {seen + 1} of {len(asked.hints)} for {asked.id}; hints cost nothing"
        )

    def clicked(_: object) -> None:
        place.clear_output(wait=True)
        with place:
            (answer if is_open() else hint)(asked.id)
        name()

    name()
    button.on_click(clicked)
    from course_lib.draw.explore import show_widget

    show_widget(ipywidgets.VBox([button, place]), "(Run this cell to get its hint button.)")


def _in_kernel() -> bool:
    from IPython import get_ipython

    shell = get_ipython()
    return shell is not None and getattr(shell, "kernel", None) is not None


if "IPython" in sys.modules and _in_kernel():
    from IPython import get_ipython

    unrun_cells.watch(get_ipython())
