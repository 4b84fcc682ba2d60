"""Grading on a Dask cluster: a task carries a submission's bytes to a worker and returns a report, both as JSON text.

The sandbox is entered inside the task, on the worker's machine, so the cluster sees only the judge's text. Workers need
this course at this contract version; each of their processes runs one task at a time.
"""

import contextlib
import json
import threading
import time
from collections.abc import Mapping
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from course_grader.judge.exercise import CONTRACT_VERSION
from course_grader.service.pool import Done
from course_grader.service.results import Task
from course_lib.messages import Trouble

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT_SECONDS = 20.0
PATIENCE = 60.0  # s without any worker before the cluster counts as gone
RECONNECT = 10.0  # s for a connection that broke to come back before the scheduler counts as gone
_POLL = 0.5  # s between two looks at the cluster while nothing comes back
_ONE_AT_A_TIME = threading.Lock()  # of a worker process that was started with several threads


def run_json(text: str) -> str:
    """Run a task given as JSON on this machine, and return its result as JSON. A Dask worker calls this."""
    from course_grader.service.task import run_task

    task = json.loads(text)
    with _ONE_AT_A_TIME:
        try:
            return json.dumps(run_task(task))
        except Exception as error:  # a bug of ours on one submission must not end the others
            why = f"the grader itself failed on it ({type(error).__name__}: {error})"
            return json.dumps({"key": task["key"], "state": "failed", "why": why})


def contract_here() -> str:
    """The contract version of this worker's judge."""
    return CONTRACT_VERSION


class Crew:
    """The worker processes of a Dask cluster, with the interface of `Markers`."""

    def __init__(self, url: str, size: int | None = None) -> None:
        self.url = url
        self.client = _connected(url)
        try:
            workers = self._workers()
            self._check(workers)
        except BaseException:
            self.client.close(timeout=1)
            raise
        self.size = min(size or len(workers), len(workers))
        self._running: dict[str, tuple[Task, Future]] = {}  # key of a task -> the task and its future
        self._ended: SimpleQueue[tuple[str, Future]] = SimpleQueue()
        self._seen = time.monotonic()

    def _workers(self) -> Mapping[str, int]:
        """Address -> threads of the scheduler's current workers."""
        try:
            return self.client.nthreads()
        except (OSError, TimeoutError) as error:
            raise self._gone() from error

    def _check(self, workers: Mapping[str, int]) -> None:
        if not workers:
            raise Trouble(
                f"The Dask scheduler at {self.url} has no workers.",
                f"start some: `dask worker {self.url} --nworkers 4 --nthreads 1`, then again",
            )
        for address, said in self.client.run(contract_here, on_error="return").items():
            if said != CONTRACT_VERSION:
                has = (
                    f"contract version {said}"
                    if isinstance(said, str)
                    else f"no course of this version ({type(said).__name__}: {said})"[:300]
                )
                raise Trouble(
                    f"The Dask worker at {address} has {has}; this one is {CONTRACT_VERSION}.",
                    "install the same version of the course on every worker, with the extra: pip install -e "
                    "'.[cluster]'",
                )

    def _gone(self) -> Trouble:
        return Trouble(
            f"The Dask scheduler at {self.url} is gone.",
            "start the cluster again, then the same command: what is graded stays graded",
        )

    def free(self) -> int:
        """How many tasks can be started now."""
        return self.size - len(self._running)

    def start(self, task: Task) -> None:
        """Submit a task to the cluster, which moves it to another worker if the first one dies."""
        key = task["key"]
        future = self.client.submit(run_json, json.dumps(task), pure=False)
        self._running[key] = task, future
        future.add_done_callback(lambda ended: self._ended.put((key, ended)))

    def wait(self, seconds: float) -> list[Done]:
        """The tasks that ended within `seconds`; returns as soon as one has. Trouble if the cluster is gone."""
        until, done = time.monotonic() + seconds, list[Done]()
        while not done:
            left = until - time.monotonic()
            try:
                done += self._taken(*self._ended.get(timeout=max(min(left, _POLL), 0.0)))
                while True:
                    done += self._taken(*self._ended.get_nowait())
            except Empty:
                pass
            self._look()
            if left <= 0:
                break
        return done

    def _taken(self, key: str, future: "Future") -> list[Done]:
        """A future's result; nothing if the connection broke and came back, in which case the task is submitted
        again."""
        task, _ = self._running.pop(key, (None, None))
        if future.status == "finished":
            return [Done(key, json.loads(future.result()), "")]
        if future.status in ("cancelled", "lost"):
            if task is None or not self._reconnected():
                raise self._gone()
            self.start(task)
            return []
        error = future.exception()
        if type(error).__name__ == "KilledWorker":
            return [Done(key, None, "several Dask workers died while they marked this submission")]
        return [Done(key, None, f"{type(error).__name__}: {error}"[:600])]

    def _reconnected(self) -> bool:
        """Whether the client is connected to the scheduler, possibly after reconnecting."""
        until = time.monotonic() + RECONNECT
        while self.client.status == "connecting" and time.monotonic() < until:
            time.sleep(0.05)
        return self.client.status == "running"

    def _look(self) -> None:
        """Trouble if the scheduler is gone, or has had no worker for a while."""
        if self.client.status not in ("running", "connecting"):
            raise self._gone()
        now = time.monotonic()
        if now - self._seen > PATIENCE / 4 and self._workers():
            self._seen = now
        elif now - self._seen > PATIENCE:
            raise Trouble(
                f"The Dask scheduler at {self.url} has had no workers for {PATIENCE:g} s.",
                "start some, then the same command: what is graded stays graded",
            )

    def close(self, seconds: float = 0.0) -> list[Done]:
        """Disconnect from the cluster, after waiting for running tasks; returns their results."""
        until, done = time.monotonic() + seconds, []
        with contextlib.suppress(Trouble):
            while self._running and time.monotonic() < until:
                done += [each for each in self.wait(min(until - time.monotonic(), _POLL)) if each.result is not None]
            if self._running:
                self.client.cancel([future for _, future in self._running.values()], force=True)
        self._running.clear()
        self.client.close(timeout=2)
        return done


def _connected(url: str) -> "Client":
    """A client of the scheduler at `url`; Trouble if Dask is missing or nothing answers."""
    try:
        from distributed import Client
    except ImportError as error:
        raise Trouble("Dask is not installed here.", "pip install -e '.[cluster]' in the course's folder") from error
    try:
        return Client(url, timeout=CONNECT_SECONDS, set_as_default=False, name="course-grading")
    except (OSError, TimeoutError, ValueError) as error:
        raise Trouble(
            f"No Dask scheduler answers at {url}.", "`dask scheduler` starts one and says its address"
        ) from error
