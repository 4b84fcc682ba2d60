from collections.abc import Sequence
from types import SimpleNamespace

from course_grader.exercises import Card, Worth, pick
from course_grader.exercises.probes import rows
from course_grader.exercises.result_schema import Anything
from course_grader.exercises.values import copied
from course_grader.records import Answer, Case

_SERVER = """```python
def update_weights(server, weights, version):
    server.weights = weights
    server.version = version


def publish(server, request, beginning, page):
    server.cache[beginning] = page
```"""


def _servers(answers: Sequence[Answer], case: Case, comm: object = None) -> object:
    """[version, weights, cache, users, free pages] of the server after each call; its fields are a row's first
    argument."""

    def called(index: int, fields: dict[str, object], *given: object) -> list[object]:
        server = SimpleNamespace(**copied(fields))
        answers[index](server, *given)
        return [server.version, server.weights, sorted(server.cache.items()), list(server.users), list(server.free)]

    def update(fields: dict[str, object], version: int) -> list[object]:
        return called(0, fields, f"w{version}", version)

    def publish(fields: dict[str, object], began: int, beginning: str, page: int) -> list[object]:
        return called(1, fields, SimpleNamespace(version=began), beginning, page)

    return rows((update, publish), case)


CARD = Card(
    title="New weights, old keys and values",
    text=f"""A generator with this code answers after a weight update as neither the old nor the new model would: its
prefix cache still finds keys and values of the old weights. Repair the two functions. The bug is real: vLLM kept its
prefix cache across `load_weights` (*vllm-project/vllm, issue 9744, 2024*), and asynchronous jobs met it again
(*NVIDIA-NeMo/RL, pull request 4018, 2026*).

{_SERVER}

- `server.cache` maps the beginning of a prompt to the page with its keys and values; later requests find pages there.
  `server.users[page]` counts the requests that use a page; `server.free` lists free pages. A page in the cache without
  users is not in `free`, as it may be found again.
- After `update_weights`, no page of other weights may be found. Pages without users become free, in the order in which
  the cache holds them. Pages that running requests use stay theirs.
- Updates can arrive late: one whose `version` is not newer than `server.version` changes nothing.
- `publish` is called when a request has filled a page. It enters the page only if all of its keys and values are of the
  current weights: `request.version` is the version with which the request began. A beginning that the cache already
  holds keeps its page. The first server has {{{{pages}}}} pages.""",
    **Worth(points=6, minutes=12, difficulty=2, importance=4),
    kind="more",
    form="bug",
    hints=(
        "Which pages does the cache find after the update, and with which weights were they computed?",
        "Emptying the cache is not enough: what returns the unused pages? And what may a request publish that "
        "began before the update?",
        "Return at once if `version <= server.version`. Otherwise append each cached page without users to `free`, and "
        "clear the cache. In `publish`, compare `request.version` with `server.version`.",
    ),
    answers=("update_weights", "publish"),
    allowed="plain Python.",
    params={"pages": 8},
    vary=pick(pages=(7, 9, 10, 11, 12)),
    needs=("16",),
    probe=_servers,
    returns=Anything("the server after each call"),
)
