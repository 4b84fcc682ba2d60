"""Larger classes: the gradebook in a real PostgreSQL, the marking on a real Dask cluster, with the grades of one machine and a file."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from course_lib.grading.classroom.folder import ClassFolder
from course_lib.grading.classroom.release import gradebook
from course_lib.grading.classroom.roster import Student
from course_lib.grading.service import dask_
from course_lib.grading.service.grading import grade_class
from course_lib.grading.service.reports import latest
from course_lib.grading.service.task import let_go
from course_lib.install import ROOT, Trouble
from tests.class_kit import NAME, work
from tests.grading_kit import cell_of, own
from tests.served_kit import hand_in, small_class
from tests.servers import ended, free_port, postgres

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
IDS = ("ada", "bob", "cyd", "dee")
SLOW = "import time\ntime.sleep(1.0)"  # so that there is a middle to kill a worker in


@dataclass(frozen=True)
class Cluster:
    """A Dask scheduler and its workers, each a process of its own."""

    url: str
    scratch: Path
    scheduler: subprocess.Popen
    workers: list[subprocess.Popen]

    def add_worker(self) -> None:
        flags = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1", "--local-directory", str(self.scratch / f"w{len(self.workers)}")]
        self.workers.append(started("distributed.cli.dask_worker", self.url, *flags, log=self.scratch / f"worker-{len(self.workers)}.log"))

    def wait_for(self, count: int) -> None:
        from distributed import Client

        with Client(self.url, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(count, timeout=90)


def started(module: str, *arguments: str, log: Path) -> subprocess.Popen:
    with log.open("wb") as out:
        return subprocess.Popen([sys.executable, "-m", module, *arguments], stdout=out, stderr=out, cwd=ROOT, start_new_session=True)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[Cluster]:
    """A scheduler with two worker processes."""
    scratch, port = tmp_path_factory.mktemp("dask"), free_port()
    scheduler = started("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard", log=scratch / "scheduler.log")
    made = Cluster(url=f"tcp://127.0.0.1:{port}", scratch=scratch, scheduler=scheduler, workers=[])
    try:
        made.add_worker()
        made.add_worker()
        made.wait_for(2)
        yield made
    finally:
        for each in (*made.workers, scheduler):
            ended(each)


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with postgres() as url:
        yield url


def filled(root: Path, db_url: str = "", secret: str = "") -> ClassFolder:
    """A class whose four students did as well as they could: all, one left out, one wrong, one that ends the process."""
    folder = small_class(root, *(Student(id=each, first_name=each.title()) for each in IDS), db_url=db_url)
    if secret:
        (folder.root / ".secret").write_text(secret, encoding="ascii")
        folder = ClassFolder.open(folder.root)
    wrong = {"cyd": {"train-days-7b": "def train_days(*_):\n    return 1.0\n\ndef gpus_for_deadline(*_):\n    return 1"},
             "dee": {"state-13b": "import os\n\ndef training_state(p):\n    os._exit(3)\n\nfewest_gpus = headroom = training_state"}}
    for each in IDS:
        notebook = work(folder, each, wrong=wrong.get(each), blank=("mfu-waste",) if each == "bob" else ())
        notebook["cells"].insert(2, own(SLOW))
        hand_in(folder, each, notebook, NOON)
    return folder


def book_of(folder: ClassFolder) -> dict[str, Any]:
    """All that a gradebook says: student -> (score, largest score, cells' scores, comments)."""
    said = {}
    with contextlib.closing(gradebook(folder)) as book:
        for each in IDS:
            notebook = book.find_submission_notebook(NAME, NAME, each)
            cells = {grade.name: (grade.auto_score, grade.manual_score, grade.needs_manual_grade) for grade in notebook.grades}
            said[each] = (notebook.score, notebook.max_score, cells, {comment.name: comment.auto_comment for comment in notebook.comments})
    return said


@pytest.fixture(scope="module")
def classes(tmp_path_factory, cluster, database) -> tuple[ClassFolder, ClassFolder]:
    """The same class twice: graded here into a file, and on the cluster into PostgreSQL, where a worker is killed in the middle."""
    near = filled(tmp_path_factory.mktemp("near"))
    assert grade_class(near, jobs=2).graded == 4
    far = filled(tmp_path_factory.mktemp("far"), db_url=database, secret=near.secret)

    def kill_one(event: Any) -> None:
        if event.kind == "done" and event.done == 1:  # others are at work just then
            os.killpg(cluster.workers[0].pid, signal.SIGKILL)

    summary = grade_class(far, scheduler=cluster.url, say=kill_one)
    assert summary.graded == 4 and not summary.not_graded and summary.level == near.wall().level
    assert cluster.workers[0].wait(10) == -signal.SIGKILL
    return near, far


@pytest.mark.postgres
def test_postgres_and_a_cluster_that_loses_a_worker_give_the_grades_of_one_machine_and_a_file(classes):
    near, far = classes
    assert near.db_url.startswith("sqlite") and far.db_url.startswith("postgresql")
    there = book_of(far)
    assert there == book_of(near)
    assert {each: there[each][0] for each in IDS} == {"ada": 28.0, "bob": 18.0, "cyd": 18.0, "dee": 23.0}
    assert latest(far, "dee", "01")["reports"][0]["state"] == "crashed"
    for each in IDS:
        one, other = latest(near, each, "01"), latest(far, each, "01")
        assert [report | {"seconds": 0} for report in one["reports"]] == [report | {"seconds": 0} for report in other["reports"]]


@pytest.mark.postgres
def test_every_submission_is_in_the_journal_once_and_nothing_is_judged_twice(classes):
    from course_lib.grading.classroom.config import load
    from course_lib.grading.service.writer import Writer

    for folder in classes:
        with Writer(folder.db_url, folder.name, load(folder)) as writer:
            assert sorted(student for student, _, _ in writer.journal()) == sorted(IDS)
        again = grade_class(folder, jobs=1)
        assert (again.graded, again.already) == (0, 4)


REACH = """
import socket

def _reached():
    for port in PORTS:
        for host in ("127.0.0.1", "localhost", "::1"):
            try:
                socket.create_connection((host, port), 1).close()
                return True
            except OSError:
                pass
    return False

if not _reached():
    raise RuntimeError("nothing answers")
"""


@pytest.mark.postgres
def test_a_submission_on_the_cluster_reaches_neither_scheduler_nor_database(cluster, database, tmp_path):
    ports = [int(cluster.url.rpartition(":")[2]), int(database.rpartition(":")[2].partition("/")[0])]
    for port in ports:
        socket.create_connection(("127.0.0.1", port), 5).close()  # they are there
    folder = small_class(tmp_path, *(Student(id=each) for each in ("one", "two")))
    for each, port in zip(("one", "two"), ports, strict=True):
        notebook = work(folder, each)
        answer = cell_of(notebook, "train-days-7b")  # right, if the port answers
        answer["source"] = REACH.replace("PORTS", f"({port},)") + answer["source"]
        hand_in(folder, each, notebook, NOON)
    grade_class(folder, scheduler=cluster.url, no_sandbox=True)
    assert {each: latest(folder, each, "01")["points"] for each in ("one", "two")} == {"one": 28.0, "two": 28.0}  # without a wall it does
    grade_class(folder, scheduler=cluster.url, again=True)
    for each in ("one", "two"):
        report = latest(folder, each, "01")
        assert report["points"] == 18.0 and "nothing answers" in json.dumps(report["reports"])


def test_a_cluster_that_is_not_there_or_is_not_ours_is_said_in_words(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(dask_, "CONNECT_SECONDS", 1.0)
    with pytest.raises(Trouble, match="No Dask scheduler answers at tcp://127.0.0.1"):
        dask_.Crew(f"tcp://127.0.0.1:{free_port()}")
    monkeypatch.setattr(dask_, "CONTRACT_VERSION", "0")  # here only: the workers have their own
    with pytest.raises(Trouble, match="has contract version .*; this one is 0"):
        dask_.Crew(cluster.url)


def test_a_cluster_that_goes_away_stops_the_run_and_costs_nobody_a_point(tmp_path):
    port = free_port()
    scheduler = started("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard", log=tmp_path / "log")
    lone = Cluster(url=f"tcp://127.0.0.1:{port}", scratch=tmp_path, scheduler=scheduler, workers=[])
    try:
        lone.add_worker()
        lone.wait_for(1)
        crew = dask_.Crew(lone.url)
        crew.start({"key": "k"})
        ended(scheduler)
        with pytest.raises(Trouble, match="is gone"):
            for _ in range(100):
                crew.wait(1.0)
        assert crew.close() == []
    finally:
        for each in (*lone.workers, scheduler):
            ended(each)
        let_go()


def test_a_slip_of_ours_on_the_cluster_is_told_and_ends_nothing():
    assert json.loads(dask_.run_json(json.dumps({"key": "k"})))["state"] == "failed"
