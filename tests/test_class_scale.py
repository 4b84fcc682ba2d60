"""Larger classes: the gradebook in a real PostgreSQL, the marking on a real Dask cluster, with the grades of one
machine and a file.

Cluster and class are made by the commands of the instructor's guide.
"""

import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest

from bench.lab import free_port
from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.release import gradebook
from course_grader.classroom.roster import key_of
from course_grader.notebooks import Notebook
from course_grader.service import dask_workers
from course_grader.service.grading import grade_class
from course_grader.service.report_cache import latest
from course_grader.service.task import make_task
from course_lib.folders import ROOT
from course_lib.messages import Trouble
from tests.class_kit import NAME, SIX, archive, copy_of, work
from tests.grading_kit import cell_of, own
from tests.guide_kit import Instructor, blocks
from tests.patience import patience
from tests.served_kit import hand_in, small_class
from tests.servers import ended, postgres

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
IDS = ("ada", "alan", "barbara", "grace")  # those of the six who hand in
SLOW = "import time\ntime.sleep(1.0)"  # so that there is a middle to kill a worker in
WRONG = {
    "barbara": {"train-days-7b": "def train_days(*_):\n    return 1.0\n\ndef gpus_for_deadline(*_):\n    return 1"},
    "grace": {
        "state-13b": "import os\n\ndef training_state(p):\n    os._exit(3)\n\nfewest_gpus = headroom = training_state"
    },
}


@dataclass(frozen=True)
class Cluster:
    """A Dask scheduler and two workers, each a process of its own, as the guide's commands start them."""

    url: str
    processes: tuple[subprocess.Popen, ...]

    def workers(self) -> list[int]:
        """The workers' processes, once two are there."""
        from distributed import Client

        with Client(self.url, timeout=patience(60), set_as_default=False) as client:
            client.wait_for_workers(2, timeout=patience(120))
            return list(client.run(os.getpid).values())

    def end(self) -> None:
        for each in reversed(self.processes):
            ended(each)


def start_cluster(scratch: Path) -> Cluster:
    port = free_port()
    lines = [line.replace("8786", str(port)) for line in blocks("cluster")]
    started = []
    for number, line in enumerate(lines):
        command = [sys.executable, "-m", *shlex.split(line)]  # this environment's dask
        with (scratch / f"{number}.log").open("wb") as log:
            started.append(
                subprocess.Popen(
                    command,
                    stdout=log,
                    stderr=log,
                    cwd=scratch,
                    start_new_session=True,
                    env={**os.environ, "PYTHONPATH": str(ROOT)},
                )
            )
    return Cluster(url=f"tcp://127.0.0.1:{port}", processes=tuple(started))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[Cluster]:
    made = start_cluster(tmp_path_factory.mktemp("dask"))
    try:
        made.workers()
        yield made
    finally:
        made.end()


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with postgres() as url:
        yield url


def notebook_of(folder: ClassFolder, student: str) -> Notebook:
    """One did everything, one left something out, one is wrong, one ends the process."""
    notebook = work(folder, student, wrong=WRONG.get(student), blank=("mfu-waste",) if student == "alan" else ())
    notebook["cells"].insert(2, own(SLOW))
    return notebook


def book_of(folder: ClassFolder) -> dict[str, tuple[object, ...]]:
    """All that a gradebook says: student -> (score, largest score, cells' scores, comments)."""
    said = {}
    with contextlib.closing(gradebook(folder)) as book:
        for each in IDS:
            notebook = book.find_submission_notebook(NAME, NAME, each)
            cells = {
                grade.name: (grade.auto_score, grade.manual_score, grade.needs_manual_grade)
                for grade in notebook.grades
            }
            said[each] = (
                notebook.score,
                notebook.max_score,
                cells,
                {comment.name: comment.auto_comment for comment in notebook.comments},
            )
    return said


@pytest.fixture(scope="module")
def near(tmp_path_factory) -> ClassFolder:
    """The class graded on this machine, its gradebook a file."""
    folder = small_class(tmp_path_factory.mktemp("near"), *SIX)
    for each in IDS:
        hand_in(folder, each, notebook_of(folder, each), NOON)
    assert grade_class(folder, jobs=2).graded == len(IDS)
    return folder


@pytest.fixture(scope="module")
def far(tmp_path_factory, near, cluster, database) -> ClassFolder:
    """The same class by the guide's commands: on the cluster, its gradebook in PostgreSQL; a worker is killed in the
    middle."""
    instructor, said = Instructor(tmp_path_factory.mktemp("far")), ""
    for line in blocks("large"):
        line = line.replace("tcp://127.0.0.1:8786", cluster.url)
        line = shlex.join(database if part.startswith("postgresql") else part for part in shlex.split(line))
        if "class release" in line:
            (instructor.at / ".secret").write_text(near.secret, encoding="ascii")  # the same hidden cases
        if "class collect" in line:
            names = {
                each.id: f"{key_of(each.last_name + each.first_name)}_{each.lms_id}_{number}_{NAME}.ipynb"
                for number, each in enumerate(SIX, 70)
            }
            files = {names[each]: json.dumps(notebook_of(near, each)).encode() for each in IDS}
            (instructor.at / "submissions.zip").write_bytes(archive(files))
        if "class grade" in line:
            killer = threading.Thread(target=kill_one, args=(instructor.at, cluster.workers()[0]))
            killer.start()
            said = instructor.types(line)
            killer.join(1)
            assert not killer.is_alive()
        else:
            instructor.types(line)
    assert f"{len(IDS)} graded" in said
    return ClassFolder.open(instructor.at)


def kill_one(root: Path, worker: int) -> None:
    """Once the first report is there, and others are being worked at, kill a worker."""
    until = time.monotonic() + patience(240)
    while time.monotonic() < until and not list(root.glob(f"reports/*/{NAME}/*.json")):
        time.sleep(0.02)
    os.kill(worker, signal.SIGKILL)


graded_far = pytest.mark.rotates("course_grader/", "course_app/cli/", "docs/instructors.md", together="far")


@graded_far
@pytest.mark.postgres
def test_postgres_and_a_cluster_that_loses_a_worker_give_the_grades_of_one_machine_and_a_file(near, far):
    assert near.settings.db_url.startswith("sqlite") and far.settings.db_url.startswith("postgresql")
    there = book_of(far)
    assert there == book_of(near)
    assert {each: there[each][0] for each in IDS} == {"ada": 28.0, "alan": 18.0, "barbara": 18.0, "grace": 23.0}
    assert latest(far, "grace", "01")["reports"][0]["state"] == "crashed"
    for each in IDS:
        assert make_task(near, each, "01")["secret"] == make_task(far, each, "01")["secret"], "the same hidden cases"
        one, other = latest(near, each, "01"), latest(far, each, "01")
        assert one["level"] == other["level"] != "none"
        assert [report | {"seconds": 0} for report in one["reports"]] == [
            report | {"seconds": 0} for report in other["reports"]
        ]


@graded_far
@pytest.mark.postgres
def test_every_submission_is_in_the_journal_once_and_nothing_is_judged_twice(near, far):
    from course_grader.classroom.config import load
    from course_grader.service.gradebook_writer import Writer

    for folder in (near, far):
        with Writer(folder.settings.db_url, folder.settings.name, load(folder)) as writer:
            assert sorted(student for student, _, _ in writer.journal()) == sorted(IDS)
        again = grade_class(folder, jobs=1)
        assert (again.graded, again.already) == (0, len(IDS))


REACH = """
import socket

def _reached(port):
    for host in ("127.0.0.1", "localhost", "::1"):
        try:
            socket.create_connection((host, port), 1).close()
            return True
        except OSError:
            pass
    return False

if not _reached(PORT):
    raise RuntimeError("nothing answers")
"""


@pytest.mark.postgres
def test_a_submission_on_the_cluster_reaches_neither_scheduler_nor_database(cluster, database, near, tmp_path):
    ports = {"train-days-7b": urlsplit(cluster.url).port, "mfu-waste": urlsplit(database).port}
    folder = copy_of(near, tmp_path / "copy")
    notebook = work(folder, "zoe")
    for exercise, port in ports.items():  # right, if the port answers
        socket.create_connection(("127.0.0.1", port), 5).close()
        answer = cell_of(notebook, exercise)
        answer["source"] = REACH.replace("PORT", str(port)) + answer["source"]
    hand_in(folder, "zoe", notebook, NOON)
    grade_class(folder, students=["zoe"], scheduler=cluster.url, no_sandbox=True)
    assert latest(folder, "zoe", "01")["points"] == 28.0  # without a wall they do
    grade_class(folder, students=["zoe"], scheduler=cluster.url, again=True)
    report = latest(folder, "zoe", "01")
    unanswered = [
        each["id"] for each in report["reports"] if each["state"] == "raised" and "RuntimeError" in each["note"]
    ]
    assert report["points"] == 8.0 and unanswered == ["train-days-7b", "mfu-waste"]


def test_a_cluster_that_is_not_there_or_is_not_ours_is_said_in_words(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(dask_workers, "CONNECT_SECONDS", 1.0)
    with pytest.raises(Trouble, match="No Dask scheduler answers at tcp://127.0.0.1"):
        dask_workers.Crew(f"tcp://127.0.0.1:{free_port()}")
    monkeypatch.setattr(dask_workers, "CONTRACT_VERSION", "0")  # here only: the workers have their own
    with pytest.raises(Trouble, match="has contract version .*; this one is 0"):
        dask_workers.Crew(cluster.url)


def test_a_task_lost_with_a_connection_that_came_back_is_handed_over_again(cluster):
    crew = dask_workers.Crew(cluster.url)
    try:
        crew._running["lost"] = {"key": "lost"}, None
        crew._ended.put(("lost", SimpleNamespace(status="lost")))
        (done,) = crew.wait(60)
    finally:
        crew.close()
    assert done.key == "lost" and "the grader itself failed on it" in done.result["why"]


def test_a_slip_of_ours_on_the_cluster_is_told_and_ends_nothing():
    assert json.loads(dask_workers.run_json(json.dumps({"key": "k"})))["state"] == "failed"


@pytest.mark.rotates("course_grader/")
def test_a_cluster_that_goes_away_stops_the_run_and_costs_nobody_a_point(tmp_path):
    lone = start_cluster(tmp_path)  # its own: the others go on with theirs
    try:
        lone.workers()
        crew = dask_workers.Crew(lone.url)
        crew.start({"key": "k"})
        ended(lone.processes[0])
        with pytest.raises(Trouble, match="is gone"):
            for _ in range(100):
                crew.wait(1.0)
        assert crew.close() == []
    finally:
        lone.end()
