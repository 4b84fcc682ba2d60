"""Setting up the course: `python -m course_app.install .venv`. Standard library only."""

from course_app.install.setting_up import PYTHONS, Place, add_group, begin, check_writable, main, pins, set_up
from course_runs.torch_choice import GB, Machine, TorchChoice, nvidia_smi, this_machine, torch_choice

__all__ = [
    "GB",
    "PYTHONS",
    "Machine",
    "Place",
    "TorchChoice",
    "add_group",
    "begin",
    "check_writable",
    "main",
    "nvidia_smi",
    "pins",
    "set_up",
    "this_machine",
    "torch_choice",
]
