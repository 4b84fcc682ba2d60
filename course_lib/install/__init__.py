"""Setting up the course: `python -m course_lib.install .venv`. Standard library only."""

from course_lib.install.setting_up import PYTHONS, ROOT, Place, add_group, begin, check_writable, main, pins, set_up
from course_lib.install.torch_choice import GB, Machine, TorchChoice, nvidia_smi, output_of, this_machine, torch_choice
from course_lib.install.words import Trouble, in_words

__all__ = [
    "GB",
    "PYTHONS",
    "ROOT",
    "Machine",
    "Place",
    "TorchChoice",
    "Trouble",
    "add_group",
    "begin",
    "check_writable",
    "in_words",
    "main",
    "nvidia_smi",
    "output_of",
    "pins",
    "set_up",
    "this_machine",
    "torch_choice",
]
