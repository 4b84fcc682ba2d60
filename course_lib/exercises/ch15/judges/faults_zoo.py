"""Judge of chapter 15's failures: the last notes of ranks and the ends of processes, in the form in which real ones come."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from course_lib.exercises.ch15.cards.faults_more import ZOO_WORDS
from course_lib.judging import Fault, Judging, Params, describe, verdict
from course_lib.records import Case, Outcome, Verdict

TORCH, OLD = "2.13.0", "2.4.0"
FAILED, SIGKILL, SIGTERM = 3, -9, -15
TIMEOUT = 5.0  # s that a collective may take
OWN = ("data", "compute", "checkpoint")
SHOWN = ("killed", "hung", "none", "flipped")
UNSEEN = (
    "version",
    "killed",
    "hung",
    "hung, reading",
    "hung, killed last",
    "mismatched",
    "flipped",
    "slow",
    "none",
    "one slow step",
    "twice as slow",
    "slow and killed",
    "slow and flipped",
    "killed at once",
    "version and mismatched",
    "flipped and killed",
    "flipped and hung",
    "hung a step behind",
    "just slow",
    "slow for two steps",
    "two and a half times",
    "slow beside uneven ones",
)
_LOST = (
    "Connection closed by peer [127.0.0.1]:20401",
    "Read error [127.0.0.1]:20401: Connection reset by peer",
)  # gloo's words
_LATE = f"Timed out waiting {TIMEOUT * 1000:.0f}ms for recv operation to complete"


@dataclass
class Scene:
    """A run with one thing wrong: notes and ends, and what the answer should be."""

    rng: random.Random
    ranks: int
    steps: int
    victim: int
    at: int = 0
    notes: list[dict[str, Any]] = field(default_factory=list)
    exits: list[tuple[float, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.at = self.rng.randrange(3, self.steps - 4)
        first = self.rng.randrange(4000, 30_000)
        sums = [f"{self.rng.getrandbits(32):08x}" for _ in range(self.steps)]
        for rank in range(self.ranks):
            work = [self.rng.uniform(0.05, 0.08), *(self.rng.uniform(0.018, 0.026) for _ in range(self.steps - 1))]
            self.notes.append(
                {
                    "rank": rank,
                    "pid": first + 7 * rank + self.rng.randrange(5),
                    "doing": "done",
                    "step": self.steps - 1,
                    "error": "",
                    "work": work,
                    "torch": TORCH,
                    "checksums": list(sums),
                }
            )
        self.notes[-1]["work"][0] = 0.4  # it compiled something: nobody's fault

    def stop(self, doing: str, error: Callable[[], str]) -> None:
        """All ranks stand in `doing` in step `at` and say an error, the victim too."""
        for note in self.notes:
            note |= {
                "doing": doing,
                "step": self.at,
                "error": error(),
                "work": note["work"][: self.at + 1],
                "checksums": note["checksums"][: self.at],
            }

    def silent(self, doing: str) -> None:
        """The victim is still at its own work, and has said nothing."""
        mine = self.notes[self.victim]
        mine |= {"doing": doing, "error": "", "work": mine["work"][: self.at]}

    def end(self, codes: Mapping[int, tuple[float, int]], otherwise: tuple[float, int]) -> None:
        """How each process ended, as (seconds, code) by rank."""
        for note in self.notes:
            seen, code = codes.get(note["rank"], otherwise)
            self.exits.append((round(seen, 1), note["pid"], code))

    def slow(self, times: float, since: int, until: int | None = None) -> None:
        """The victim takes longer from a step on."""
        work = self.notes[self.victim]["work"]
        work[since:until] = [each * times for each in work[since:until]]

    def flip(self) -> None:
        """The victim's weights are others from step `at` on."""
        mine = self.notes[self.victim]["checksums"]
        mine[self.at :] = [f"{self.rng.getrandbits(32):08x}" for _ in mine[self.at :]]


Answer = tuple[str, int | None, int | None]


def scene(
    what: str, rng: random.Random, ranks: int, steps: int, victim: int
) -> tuple[list[dict[str, Any]], list[tuple[float, int, int]], Answer]:
    """Notes and ends of such a run, in some order, and what happened in it."""
    made = Scene(rng, ranks, steps, victim)
    kind = what if what in _PLAYS else what.split(",")[0].removeprefix("slow and ").removesuffix(" at once")
    if what in ("slow and killed", "slow and flipped"):
        made.slow(rng.uniform(5, 9), 1)
    answer = _PLAYS[kind](made, what)
    mine = made.notes.pop(victim)
    rng.shuffle(made.notes)
    made.notes.insert(
        rng.choice([place for place in range(1, ranks) if place != victim]), mine
    )  # neither first nor in its own place
    rng.shuffle(made.exits)
    if made.exits[0][1] == mine["pid"]:
        made.exits.append(made.exits.pop(0))
    return made.notes, made.exits, answer


def _version(made: Scene, what: str) -> Answer:
    made.at = 0
    made.stop("starting", lambda: "Trouble: The ranks do not have the same torch version.")
    for note in made.notes:
        note |= {"work": [], "checksums": []}
    made.notes[made.victim]["torch"] = OLD
    made.end({}, (4.0, FAILED))
    return "version", made.victim, 0


def _killed(made: Scene, what: str) -> Answer:
    made.stop("all_reduce", lambda: f"RuntimeError: {made.rng.choice(_LOST)}")
    made.silent(made.rng.choice(OWN))
    if what == "slow and killed":
        made.notes[(made.victim + 1) % made.ranks]["work"][1:] = [0.3] * made.at
    seen = 9.0 + made.rng.random()
    together = what == "killed at once"  # the launcher looked only after the others had failed too
    others = (seen, FAILED) if together else (seen + 0.2, made.rng.choice((FAILED, SIGTERM)))
    made.end({made.victim: (seen, SIGKILL)}, others)
    return "killed", made.victim, made.at


def _hung(made: Scene, what: str) -> Answer:
    made.stop("all_reduce", lambda: f"RuntimeError: {_LATE}")
    made.silent({"hung, reading": "data", "hung, killed last": "checkpoint"}.get(what, "compute"))
    seen = 14.0 + made.rng.random()
    broom = (seen + 30.0, SIGKILL) if what.endswith("killed last") else (seen + 0.3, SIGTERM)
    made.end({made.victim: broom}, (seen, FAILED))
    return "hung", made.victim, made.at


def _mismatched(made: Scene, what: str) -> Answer:
    usual, odd = made.rng.choice(
        (("all_reduce", "all_gather"), ("reduce_scatter", "all_reduce"), ("all_gather", "broadcast"))
    )
    made.stop(usual, lambda: f"RuntimeError: {_LATE}")
    made.notes[made.victim]["doing"] = odd
    made.end({}, (14.0 + made.rng.random(), FAILED))
    return "mismatched", made.victim, made.at


def _flipped(made: Scene, what: str) -> Answer:
    made.flip()
    made.end({}, (20.0, 0))
    return "flipped", made.victim, made.at


def _slow(made: Scene, what: str) -> Answer:
    made.slow(made.rng.uniform(5, 9), made.at)
    made.end({}, (24.0, 0))
    return "slow", made.victim, made.at


def _none(made: Scene, what: str) -> Answer:
    if what == "one slow step":
        made.slow(12.0, made.at, made.at + 1)
    if what == "twice as slow":
        made.slow(1.8, made.at)
    made.end({}, (20.0, 0))
    return "none", None, None


def _close(made: Scene, what: str) -> Answer:
    """Work that is three times the others', or not quite, for three steps, or not quite."""
    uneven, since = what == "slow beside uneven ones", made.steps - (2 if what == "slow for two steps" else 3)
    others = [note for note in made.notes if note["rank"] != made.victim]
    for place, note in enumerate(others):  # uneven ones: with the victim among them, the median would be larger
        note["work"] = [(2 if uneven and 2 * place >= len(others) else 1) / 32] * made.steps  # comes out to the bit
    usual = median(note["work"][0] for note in others)
    times = {"just slow": 3.0, "two and a half times": 2.5}.get(what, 3.25) * usual
    made.notes[made.victim]["work"] = [
        usual,
        usual,
        4 * usual,
        *[usual] * (since - 3),
        *[times] * (made.steps - since),
    ]  # and a single slow step before
    made.end({}, (20.0, 0))
    return ("slow", made.victim, since) if what in ("just slow", "slow beside uneven ones") else ("none", None, None)


def _behind(made: Scene, what: str) -> Answer:
    """The victim still writes the checkpoint of the step before; the others wait for it in the next."""
    _hung(made, "hung")
    mine = made.notes[made.victim]
    mine |= {"doing": "checkpoint", "step": made.at - 1, "work": mine["work"][: made.at]}
    return "hung", made.victim, made.at - 1


def _spoiled(made: Scene, what: str) -> Answer:
    """Weights of another rank were no longer its replicas' for a while, before something else ended the run."""
    answer = (_killed if what.endswith("killed") else _hung)(made, what)
    other = made.notes[(made.victim + 1) % made.ranks]
    other["checksums"] = [*other["checksums"][:-2], "0badcafe", "0badbeef"]
    return answer


def _two_versions(made: Scene, what: str) -> Answer:
    """Two versions that did connect, and hung later."""
    _mismatched(made, what)
    made.notes[made.victim]["torch"] = OLD
    return "version", made.victim, 0


_PLAYS: Mapping[str, Callable[[Scene, str], Answer]] = {
    "version and mismatched": _two_versions,
    "flipped and killed": _spoiled,
    "flipped and hung": _spoiled,
    "hung a step behind": _behind,
    **dict.fromkeys(("just slow", "slow for two steps", "two and a half times", "slow beside uneven ones"), _close),
    "version": _version,
    "killed": _killed,
    "hung": _hung,
    "mismatched": _mismatched,
    "flipped": _flipped,
    "slow": _slow,
    "none": _none,
    "one slow step": _none,
    "twice as slow": _none,
}

_LOOK: Mapping[str, str] = {
    "version": "compare what each rank runs, before anything else.",
    "killed": "look at the exit codes that were seen first. Who has no error in its note?",
    "hung": "who has no error, and is at work of its own while the others wait? A −9 that comes late is the launcher's broom.",
    "mismatched": "everybody is in a collective, and everybody's time is up. In the same one?",
    "flipped": "nothing failed. Are the replicas still replicas?",
    "slow": "nothing failed. Compare each rank's own work with that of the others in the same step.",
    "none": "it ended well, its replicas agree, and no rank is three times as slow as the others to the end.",
}


def _case(what: str, rng: random.Random, name: str, ranks: int, steps: int, victim: int, **more: Any) -> Case:
    notes, exits, answer = scene(what, rng, ranks, steps, victim)
    return Case(name=name, args=(notes, exits), secret=answer, **more)


def _cases(params: Params, rng: random.Random) -> list[Case]:
    shown = [
        _case(
            what, rng, f"run {place}", params["ranks"], params["steps"], rng.randrange(1, params["ranks"]), part="shown"
        )
        for place, what in enumerate(SHOWN, 1)
    ]
    unseen = []
    for place, what in enumerate(rng.sample(UNSEEN, len(UNSEEN)), 1):
        ranks = rng.choice((3, 4, 5))
        victim = 0 if what in ("hung", "flipped") else rng.randrange(ranks)
        unseen.append(
            _case(
                what,
                rng,
                f"another run ({place})",
                ranks,
                rng.choice((9, 11, 14)),
                victim,
                kind="generality",
                part="unseen",
                visible=False,
            )
        )
    return shown + unseen


def _fault(case: Case, got: Any) -> Fault | None:
    kind, rank, step = case.secret
    if type(got) not in (tuple, list) or len(got) != 3:
        name = "returned-none" if got is None else "wrong-shape"
        return name, f"{case.name}: return (kind, rank, step); got {describe(got)}."
    if type(got[0]) is not str or got[0] not in ZOO_WORDS:
        return "no-such-word", f"{case.name}: got {describe(got[0])}; the kinds are {', '.join(ZOO_WORDS)}."
    if got[0] != kind:
        if kind == "none":
            return "false-alarm", f"{case.name}: {got[0]!r} is said; {_LOOK['none']}"
        name = "broom" if (got[0], kind) == ("killed", "hung") else "unnoticed" if got[0] == "none" else f"not-{kind}"
        return name, f"{case.name}: {got[0]!r} is said; {_LOOK[kind]}"
    if not _is(got[1], rank):
        return (
            "wrong-rank",
            f"{case.name}: it is {kind!r}, but not rank {describe(got[1])}. Notes come in any order; and those who complain are not those who failed.",
        )
    if not _is(got[2], step):
        return (
            "wrong-step",
            f"{case.name}: it is {kind!r} and the rank is right, but it is not step {describe(got[2])}: {ZOO_WORDS[kind][1]}.",
        )
    return None


def _is(got: Any, want: int | None) -> bool:
    return got is None if want is None else type(got) is int and got == want


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    return [verdict(case.kind, case.part, case, _fault(case, outcome.value))]


ZOO = {
    "failure-zoo": Judging(
        shares={"values:shown": 0.35, "generality:unseen": 0.65},
        cases=_cases,
        verdicts=_verdicts,
        why="Those who fail are silent, those who wait complain. So the order of exits tells more than the text of errors, and what a rank was doing more than what it said: alone at its own work, it "
        "hung; in another collective, it took another branch. What no error shows must be compared while the run is well: versions before it, checksums and times during it.",
        pytorch="torchrun's “Root Cause (first observed failure)” is this order; the flight recorder (`TORCH_FR_BUFFER_SIZE`, `torch.distributed.flight_recorder`) keeps each rank's last collectives. NCCL has a "
        "timeout and no mismatch check, but for `TORCH_DISTRIBUTED_DEBUG=DETAIL`.",
    )
}
