"""What a process keeps between tasks: the pinned sources, and a worker pool for each chapter."""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from course_grader import exercises
from course_grader.notebooks import Notebook, grade_meta, is_answer, is_check, parse
from course_grader.sandbox import Wall
from course_grader.service.results import Task
from course_grader.worker.imports import imports_of
from course_grader.worker.worker_pool import WorkerPool
from course_lib.messages import Trouble

_KEPT = 2  # fork servers that one marker keeps: the chapter it is at, and the one before
_sources: "OrderedDict[tuple[str, frozenset[str]], Notebook]" = OrderedDict()
_pools: "OrderedDict[str, WorkerPool]" = OrderedDict()


def source_of(text: str, chosen: frozenset[str]) -> Notebook:
    """The pinned source without the cells of exercises that were not chosen, so that a worker does not have their
    answers.
    """
    key = (text, chosen)
    if key not in _sources:
        notebook = parse(text, "the pinned source")
        cells = [cell for cell in notebook["cells"] if not _not_chosen(cell, chosen)]
        _sources[key] = {**notebook, "cells": cells}
        while len(_sources) > 2 * _KEPT:
            _sources.popitem(last=False)
    return _sources[key]


def _not_chosen(cell: Mapping[str, object], chosen: frozenset[str]) -> bool:
    meta = grade_meta(dict(cell))
    if not meta or meta.get("task") or (meta.get("grade") and meta.get("solution")):
        return False  # what is graded by hand stays
    name = meta["grade_id"].removesuffix("-check")
    return (is_answer(dict(cell)) or is_check(dict(cell))) and name not in chosen


def pool_of(task: Task, source: Notebook) -> WorkerPool:
    """A pool whose fork server has loaded this chapter's imports; started once and kept for the next submission."""
    wall = task["wall"]
    key = json.dumps([wall, hashlib.sha256(task["source"].encode()).hexdigest(), task["overlay"]], sort_keys=True)
    if key in _pools:
        _pools.move_to_end(key)
        return _pools[key]
    while len(_pools) >= _KEPT:
        _, old = _pools.popitem(last=False)
        old.__exit__(None, None, None)
    made = WorkerPool(
        torch=True, chapters=exercises.chapters(), imports=imports_of(source), wall=_wall(wall), many=True
    )
    made.__enter__()
    try:
        made.wait_ready()
    except Trouble:
        made.__exit__(None, None, None)
        raise
    _pools[key] = made
    return made


def _wall(given: dict[str, Any] | None) -> Wall | None:
    if given is None:
        return None
    return Wall(**{**given, "hidden": tuple(given["hidden"])})


def let_go() -> None:
    """End the fork servers that this process keeps."""
    while _pools:
        _, old = _pools.popitem()
        old.__exit__(None, None, None)
