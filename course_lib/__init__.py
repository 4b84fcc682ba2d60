"""Training at Scale: the library behind the chapters. Importing it loads the standard library only.

A chapter begins with `from course_lib import check, hint, predict, answer, params, use`.
"""

import importlib

from course_lib import old_names

__version__ = "1.0.0"

_LEARNER_NAMES = ("answer", "check", "hint", "params", "predict", "use")
old_names.install()
__all__ = ["__version__", "answer", "check", "hint", "params", "predict", "use"]


def __getattr__(name: str) -> object:
    """The learner's six functions, loaded on first use from `course_app.notebook`."""
    if name not in _LEARNER_NAMES:
        if new := old_names.new_name(f"course_lib.{name}"):
            return importlib.import_module(new)
        raise AttributeError(f"module 'course_lib' has no attribute {name!r}; it offers {', '.join(_LEARNER_NAMES)}")
    from course_app import notebook

    return getattr(notebook, name)


def __dir__() -> list[str]:
    """What `from course_lib import <Tab>` offers."""
    return sorted([*globals(), *_LEARNER_NAMES])
