"""What the fork server loads before it forks: the imports of notebooks, an IPython shell, and nothing that judges."""

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from course_grader import exercises
from course_grader.secrecy import is_judging
from course_grader.worker.process_state import seed_everything
from course_grader.worker.runners import code_of

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_PRIVATE = ("course_grader.judge", "course_app.check")


def is_private(name: str) -> bool:
    """Whether a module must not be loaded where answers run, because it judges."""
    return is_judging(name.split(".")) or any(name == each or name.startswith(f"{each}.") for each in _PRIVATE)


class Refuse(importlib.abc.MetaPathFinder):
    """Makes the judging modules unimportable in this process and its forks."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """ImportError for a private module, "not mine" for every other."""
        if is_private(fullname):
            raise ImportError(f"{fullname} cannot be imported where answers run.", name=fullname)
        return None


def preload(torch: bool, chapters: Sequence[str], imports: Sequence[str] = ()) -> "InteractiveShell":
    """Import what notebooks need and nothing that judges. Returns the shell in which they will run."""
    import numpy  # noqa: F401

    for chapter in chapters:
        for hides in {card.hides for card in exercises.cards(chapter)}:
            for name in hides:
                code_of(name.partition(":")[2])
    if torch:
        import torch as module

        import course_grader.remote_ranks.remote_worker
        import course_grader.worker.ranks_in_process  # noqa: F401

        module.set_num_threads(1)
    for name in imports:
        with contextlib.suppress(ImportError):  # a cell that needs it will say so
            importlib.import_module(name)
    shell = make_shell()
    seed_everything()  # the first use loads more of torch
    if held := [name for name in sys.modules if is_private(name)]:
        raise RuntimeError(f"{held} must not be loaded in a worker's parent.")
    return shell


def make_shell() -> "InteractiveShell":
    """An IPython shell without history, files, colors or display; what a cell shows is dropped unformatted."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "NoColor"
    config.InteractiveShell.sphinxify_docstring = False
    shell: Any = InteractiveShell.instance(config=config)  # its stubs know no methods of its own
    shell.display_formatter.format = lambda *_, **__: ({}, {})  # drawing every figure would cost seconds
    shell.display_pub.publish = lambda *_, **__: None
    shell._tee = lambda channel: (
        contextlib.nullcontext()
    )  # it would keep everything that cells print, possibly gigabytes
    shell.ask_exit = _leave
    shell.showtraceback = shell.showsyntaxerror = lambda *_, **__: None
    return shell


def _leave() -> NoReturn:
    """`quit()` in a cell: raises an error in that cell."""
    raise SystemExit("quit() ends a notebook's kernel")
