"""The module names of release 1.0, which still work: each is now another name of the module that took its place.

A name that was not a learner's to import, such as one of a judge, is not among them.
"""

import importlib
import importlib.abc
import importlib.machinery
import sys
import warnings
from collections.abc import Sequence
from types import ModuleType

from course_lib.installation import called_here

_ROOMS = {  # where a module or package of this name is now
    "course_lib.estimate": "units facts memory compute roofline scaling_laws",
    "course_lib.model": "text transformer packing accounting training optimizer precision ledger checkpoint",
    "course_lib.cluster": "collectives overlap parity",
    "course_lib.parallel": "schedules pipeline timeline mesh planner",
    "course_lib.operate": "serving faults capstone",
    "course_app": "learner own_trainer notebook",
}
MOVED = {f"course_lib.{name}": f"{room}.{name}" for room, names in _ROOMS.items() for name in names.split()} | {
    "course_lib.data_parallel": "course_lib.parallel.data",
    "course_lib.sharding": "course_lib.parallel.sharding",
    "course_lib.tensor_parallel": "course_lib.parallel.tensor",
    "course_lib.context_parallel": "course_lib.parallel.context",
    "course_lib.expert_parallel": "course_lib.parallel.expert",
    "course_lib.runs": "course_runs",
    "course_lib.figures": "course_lib.draw",
    "course_lib.widgets": "course_lib.draw.explore",
    "course_lib.walls": "course_chapters.ch01.walls",
    "course_lib.diagnosis": "course_chapters.ch17.diagnosis",
    "course_lib.capstone.conflicts": "course_chapters.ch17.mechanisms",
    "course_lib.capstone.debates": "course_chapters.ch17.debates",
    "course_lib.capstone.rubric": "course_chapters.ch17.rubric",
    "course_lib.cluster.launcher": "course_runs.real_ranks.launcher",
    "course_lib.cluster.gloo": "course_runs.real_ranks.gloo",
    "course_lib.benchmarks": "bench",
    "course_lib.runs.intervals": "course_lib.cluster.intervals",
    "course_lib.memory.allocator": "course_chapters.ch02.allocator",
    "course_lib.mesh.training": "course_chapters.ch13.mesh_training",
    "course_lib.facts.course": "course_chapters.course",
    "course_lib.facts.pipelines": "course_chapters.ch10.published_pipelines",
    "course_lib.checkpoint.killing": "course_chapters.ch14.killing",
    "course_lib.checkpoint.memory_disk": "course_chapters.ch14.memory_disk",
}
MOVED |= {
    f"{package}.{name}": f"course_runs.serving.{name}"
    for package in ("course_lib.serving", "course_lib.operate.serving")
    for name in ("client", "engine", "forecast", "load", "paged_model", "server")
}
_LEAVES = {  # modules that have another name within their package
    "course_lib.cluster": "activity:message_exchange exchange:message_exchange interleave:adversarial_delivery "
    "work:point_to_point",
    "course_lib.memory": "conventions:recipes terms:activation_terms stages:stage_peaks",
    "course_lib.data_parallel": "replica:ddp samples:sampler tokens:token_weighting",
    "course_lib.sharding": "fully:fsdp rows:flat_parameter flat:flatten levels:hsdp whole:full_state_dict owned:zero1 "
    "predict:comm_costs trials:equivalence",
    "course_lib.tensor_parallel": "operators:autograd_collectives chance:rng proof:equivalence pieces:partition",
    "course_lib.context_parallel": "partial:log_sum_exp_merge needed:visible_blocks gather:all_gather_kv "
    "tiles:attention_blocks",
    "course_lib.expert_parallel": "dropping:expert_capacity nodes:node_limited",
    "course_lib.schedules": "whole:fused_backward cutting:partition holding:activation_peaks rows:rows_builder",
    "course_lib.runs": "clock:step_breakdown doctored:forged_examples failing:failure_drill_worker "
    "failures:failure_drill fleet:torchrun gap:prediction_error gates:evidence_checks look:preflight money:budget "
    "place:process_group starting:worker_start survive:fault_drill surviving:fault_drill_worker",
    "course_lib.benchmarks": "chosen:holdout",
    "course_lib.pipeline": "halves:split_backward sharing:tied_weights",
}
MOVED |= {
    f"{name}.{old}": f"{MOVED.get(package, package)}.{new}"
    for package, pairs in _LEAVES.items()
    for old, new in (pair.split(":") for pair in pairs.split())
    for name in (package, MOVED.get(package, package))  # also `from course_lib.sharding import fully`
}


def new_name(old: str) -> str:
    """The name that a module of release 1.0 has now; "" where it has the same name, or none."""
    head, tail = old, ""
    while head:
        if head in MOVED:
            return MOVED[head] + tail
        head, dot, last = head.rpartition(".")
        tail = f"{dot}{last}{tail}"
    return ""


class OldNames(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports a module under its old name; asked before all others."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A spec for an old name whose new module exists."""
        if fullname == "course_lib.chapters":
            raise ImportError(
                called_here(
                    "This notebook is of an earlier release of the course. `./course update`, with the chapter's "
                    "number, brings your answers into the new one."
                ),
                name=fullname,
            )
        return importlib.machinery.ModuleSpec(fullname, self) if new_name(fullname) else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """The module itself, with its own spec kept for `exec_module`."""
        new = new_name(spec.name)
        warnings.warn(f"{spec.name} is {new} now; the old name works until release 1.2.", FutureWarning, stacklevel=2)
        module = importlib.import_module(new)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Put back what the import system set: the module has run under its own name."""
        assert module.__spec__
        module.__spec__ = module.__spec__.loader_state


def install() -> None:
    """Make the old names importable in this process."""
    if not any(isinstance(each, OldNames) for each in sys.meta_path):
        sys.meta_path.insert(0, OldNames())  # first: a folder that an update left behind must not count as a module
