from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any

from course_chapters.ch15.exercises.failure_zoo import ZOO_WORDS
from course_grader.judging import WHOLE, Case, Fault, Judging, Outcome, Params, Random, Wrong, describe, hidden, oracle
from course_grader.judging.cases import shown
from course_grader.judging.diagnoses import diagnosis_fault, numbered

TORCH, OLD = "2.13.0", "2.4.0"
FAILED, SIGKILL, SIGTERM = 3, -9, -15
LOST = (  # gloo's words
    "RuntimeError: Connection closed by peer [127.0.0.1]:20401",
    "RuntimeError: Read error [127.0.0.1]:20401: Connection reset by peer",
)
LATE = ("RuntimeError: Timed out waiting 5000ms for recv operation to complete",)
VERSIONS = ("Trouble: The ranks do not have the same torch version.",)
COLLECTIVES = (("all_reduce", "all_to_all"), ("reduce_scatter", "all_to_all"), ("all_gather", "gather"))
STARTING = (("starting", "starting"),)
AT_WORK = tuple(("all_reduce", own) for own in ("data", "compute", "checkpoint"))
End = tuple[float, int]  # its second, and the exit code
Ends = tuple[float, Sequence[int]]  # the same with several exit codes, one of which is drawn


class Scene:
    """A run with one fault: notes and ends, and the step of the fault."""

    def __init__(self, rng: Random, ranks: int, steps: int, victim: int) -> None:
        self.rng, self.steps = rng, steps
        self.at = rng.randrange(3, steps - 4)
        first, sums = rng.randrange(4000, 30_000), self.sums(steps)
        self.notes: list[dict[str, Any]] = []
        for rank in range(ranks):
            work = [rng.uniform(0.05, 0.08), *(rng.uniform(0.018, 0.026) for _ in range(steps - 1))]
            note = {"rank": rank, "pid": first + 7 * rank + rng.randrange(5), "work": work, "checksums": list(sums)}
            self.notes.append(note | {"doing": "done", "step": steps - 1, "error": "", "torch": TORCH})
        self.notes[-1]["work"][0] = 0.4  # it compiled something, which is not a fault
        self.mine, self.next = self.notes[victim], self.notes[(victim + 1) % ranks]
        self.exits = [(20.0, note["pid"], 0) for note in self.notes]

    def sums(self, count: int) -> list[str]:
        return [f"{self.rng.getrandbits(32):08x}" for _ in range(count)]

    def stop(self, errors: Sequence[str], doing: Sequence[tuple[str, str]], others: Ends, mine: End) -> None:
        """All ranks fail in a collective, the victim in another one of `doing`, or it is silent at its own work.

        `others` and `mine` have the second of their end, and their exit codes.
        """
        usual, own = self.rng.choice(doing)
        for note in self.notes:
            note |= {"doing": usual, "step": self.at, "error": self.rng.choice(errors)}
            note |= {"work": note["work"][: self.at + 1], "checksums": note["checksums"][: self.at]}
        self.mine["doing"] = own
        if (usual, own) in AT_WORK:
            self.mine |= {"error": "", "work": self.mine["work"][: self.at]}
        late, code = self.rng.random(), self.rng.choice(others[1])
        ends = [mine if note is self.mine else (others[0], code) for note in self.notes]
        self.exits = [(round(at + late, 1), note["pid"], end) for note, (at, end) in zip(self.notes, ends, strict=True)]

    def old(self) -> None:
        self.mine["torch"], self.at = OLD, 0

    def behind(self) -> None:
        """The victim still writes the checkpoint of the previous step; the others wait for it in the next."""
        self.at -= 1
        self.mine["step"] = self.at

    def flipped(self) -> None:
        self.mine["checksums"][self.at :] = self.sums(self.steps - self.at)

    def spoiled(self) -> None:
        """Another rank's weights had differed for a while before something else ended the run."""
        self.next["checksums"] = [*self.next["checksums"][:-2], "0badcafe", "0badbeef"]

    def slow_neighbor(self) -> None:
        self.next["work"][1:] = [0.3] * self.at

    def slow_throughout(self) -> None:
        self.at = 0
        self.slowed(40.0)  # another rank compiles in its first step

    def slowed(self, times: float, since: int | None = None, steps: int | None = None) -> None:
        since = since or self.at
        span = slice(since, steps and since + steps)
        self.mine["work"][span] = [each * times for each in self.mine["work"][span]]

    def near(self, times: float, steps: int = 3, uneven: bool = False) -> None:
        """Work that is about three times the others' for about three steps; a single slow step comes before."""
        self.at = self.steps - steps
        others = [note for note in self.notes if note is not self.mine]
        for place, note in enumerate(others):  # uneven ones: with the victim among them, the median would be larger
            note["work"] = [(2 if uneven and 2 * place >= len(others) else 1) / 32] * self.steps  # exact in binary
        usual = median(note["work"][0] for note in others)
        self.mine["work"] = [usual, usual, 4 * usual, *[usual] * (self.at - 3), *[times * usual] * steps]


def _stopped(errors: Sequence[str], doing: Sequence[tuple[str, str]], others: Ends, mine: End) -> Callable[..., None]:
    return partial(Scene.stop, errors=errors, doing=doing, others=others, mine=mine)


def _hung(place: int, mine: End = (14.3, SIGTERM)) -> Callable[..., None]:
    return _stopped(LATE, AT_WORK[place : place + 1], (14.0, (FAILED,)), mine)


_slow_before = partial(Scene.slowed, times=7.0, since=1)
_killed = _stopped(LOST, AT_WORK, (9.2, (FAILED, SIGTERM)), (9.0, SIGKILL))
_mismatched = _stopped(LATE, COLLECTIVES, (14.0, (FAILED,)), (14.0, FAILED))
PLAYS: Mapping[str, tuple[str, *tuple[Callable[..., None], ...]]] = {  # the kind, and what happens one after another
    "version": ("version", Scene.old, _stopped(VERSIONS, STARTING, (4.0, (FAILED,)), (4.0, FAILED))),
    "killed": ("killed", _killed),
    "hung": ("hung", _hung(1)),
    "hung, reading": ("hung", _hung(0)),
    "hung, killed last": ("hung", _hung(2, (44.0, SIGKILL))),
    "mismatched": ("mismatched", _mismatched),
    "flipped": ("flipped", Scene.flipped),
    "slow": ("slow", partial(Scene.slowed, times=7.0)),
    "slow from the first step": ("slow", Scene.slow_throughout),
    "none": ("none",),
    "one slow step": ("none", partial(Scene.slowed, times=12.0, steps=1)),
    "slow and killed": ("killed", _slow_before, _killed, Scene.slow_neighbor),
    "slow and flipped": ("flipped", _slow_before, Scene.flipped),
    "killed at once": ("killed", _stopped(LOST, AT_WORK, (9.0, (FAILED,)), (9.0, SIGKILL))),
    "version and mismatched": ("version", _mismatched, Scene.old),
    "flipped and killed": ("killed", _killed, Scene.spoiled),
    "flipped and hung": ("hung", _hung(1), Scene.spoiled),
    "hung a step behind": ("hung", _hung(2), Scene.behind),
    "just slow": ("slow", partial(Scene.near, times=3.0)),
    "slow for two steps": ("none", partial(Scene.near, times=3.25, steps=2)),
    "two and a half times": ("none", partial(Scene.near, times=2.5)),
    "two and a half times uneven ones": ("none", partial(Scene.near, times=2.5, uneven=True)),
    "slow beside uneven ones": ("slow", partial(Scene.near, times=3.25, uneven=True)),
}


def scene(what: str, rng: Random, ranks: int, steps: int, victim: int) -> tuple[object, ...]:
    """Notes and ends of such a run, in some order, and what happened in it: kind, rank and step."""
    made, (kind, *plays) = Scene(rng, ranks, steps, victim), PLAYS[what]
    for play in plays:
        play(made)
    made.notes.remove(made.mine)
    rng.shuffle(made.notes)
    elsewhere = [place for place in range(1, ranks) if place != victim]  # neither first nor in its place
    made.notes.insert(rng.choice(elsewhere), made.mine)
    rng.shuffle(made.exits)
    if made.exits[0][1] == made.mine["pid"]:
        made.exits.append(made.exits.pop(0))
    return made.notes, made.exits, (kind, None, None) if kind == "none" else (kind, victim, made.at)


def _cases(params: Params, rng: Random) -> list[Case]:
    ranks, steps, drawn = params["ranks"], params["steps"], []
    words = ("killed", "hung", "none", "flipped")
    example = [scene(what, rng, ranks, steps, rng.randrange(1, ranks)) for what in words]
    for what in rng.sample(list(PLAYS), len(PLAYS)):
        ranks = 12 if what in ("version", "mismatched") else 5 if "uneven" in what else rng.choice((3, 4, 5))
        victim = 0 if what in ("hung", "flipped") else 9 if ranks == 12 else rng.randrange(ranks)
        drawn.append(scene(what, rng, ranks, rng.choice((9, 11, 14)), victim))
    unseen = numbered(hidden, "another run ({})", "generality:unseen", drawn)
    return [*numbered(shown, "run {}", "values:shown", example), *unseen]


LOOK: Mapping[str, str] = {
    "version": "Compare what each rank runs, before anything else.",
    "killed": "Look at the exit codes that were seen first. Who has no error in its note?",
    "hung": "Who has no error, and does its own work while the others wait? A late −9 comes from the launcher.",
    "mismatched": "All ranks timed out in a collective. In the same one?",
    "flipped": "Nothing failed. Are the replicas still equal?",
    "slow": "Nothing failed. Compare each rank's own work with that of the others in the same step.",
    "none": "The run ended well, its replicas agree, and no rank is three times as slow as the others to the end.",
}


def _fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    (said, rank, step), (kind, *where) = outcome.value, case.secret
    if fault := diagnosis_fault(case.name, said, kind, "none", LOOK):
        return Wrong(*fault)._replace(where=WHOLE)
    lead = f"{case.name}: {kind!r} is right"
    if rank != where[0]:
        why = (
            "`notes` is in any order" if kind in ("version", "flipped", "slow") else "ranks that complain did not fail"
        )
        return "wrong-rank", f"{lead}, but not rank {describe(rank)}: {why}."
    if step != where[1]:
        return "wrong-step", f"{lead} and so is the rank, but not step {describe(step)}: {ZOO_WORDS[kind][1]}."
    return None


JUDGING = Judging(
    shares={"values:shown": 0.35, "generality:unseen": 0.65},
    cases=_cases,
    verdicts=oracle(_fault),
    why="""Ranks that fail are silent; ranks that wait complain. The order of exits is better evidence than the errors'
text, and what a rank was doing is better evidence than what it reported. Faults without an error need comparisons in a
healthy run: versions before it, checksums and times during it.""",
    pytorch="""torchrun's “Root Cause (first observed failure)” is this order; the flight recorder
(`TORCH_FR_BUFFER_SIZE`) keeps each rank's last collectives. NCCL has a timeout and no check for mismatches, except with
`TORCH_DISTRIBUTED_DEBUG=DETAIL`.""",
)

ANSWERS = r'''# %% right: worked
def what_happened(notes: list[dict], exits: list[tuple[float, int, int]]) -> tuple[str, int | None, int | None]:
    """(kind, rank, first step) of a failure; ("none", None, None) where there is none."""

    def odd(values):  # (the one that differs from most, or None)
        usual = Counter(values).most_common(1)[0][0]
        return next((rank for rank, value in enumerate(values) if value != usual), None)

    notes = sorted(notes, key=lambda note: note["rank"])
    if (rank := odd([note["torch"] for note in notes])) is not None:
        return "version", rank, 0
    first = min(seen for seen, _, _ in exits)
    for seen, pid, code in exits:
        if code == -9 and seen == first:  # the launcher ended the later ones
            return next(("killed", note["rank"], note["step"]) for note in notes if note["pid"] == pid)
    if any(code for _, _, code in exits):
        rank = odd([note["doing"] for note in notes])
        kind = "hung" if notes[rank]["doing"] in ("data", "compute", "checkpoint") else "mismatched"
        return kind, rank, notes[rank]["step"]
    for step, sums in enumerate(zip(*(note["checksums"] for note in notes), strict=True)):
        if (rank := odd(sums)) is not None:
            return "flipped", rank, step
    for note in notes:
        others = [other["work"] for other in notes if other is not note]
        slow = [mine >= 3 * median(work[step] for work in others) for step, mine in enumerate(note["work"])]
        if all(slow[-3:]):
            return "slow", note["rank"], next(step for step in range(len(slow)) if all(slow[step:]))
    return "none", None, None
# %% right: silence first, and slow steps counted from the end
#           return "version", rank, 0
# +     ends = {pid: (seen, code) for seen, pid, code in exits}
# +     for note in notes:
# +         if not note["error"] and note["doing"] != "done":
# +             killed = ends[note["pid"]] == (min(ends.values())[0], -9)
# +             return ["killed" if killed else "hung", note["rank"], note["step"]]
# +     if any(note["error"] for note in notes):
# +         rank = odd([note["doing"] for note in notes])
# +         return ["mismatched", rank, notes[rank]["step"]]
#           slow = [mine >= 3 * median(work[step] for work in others) for step, mine in enumerate(note["work"])]
# +         since = len(slow)
# +         while since and slow[since - 1]:
# +             since -= 1
# +         if len(slow) - since >= 3:
# +             return ["slow", note["rank"], since]
# %% wrong: broom => generality
# > this signal 9 came late: by it the launcher ended what was still running.
# ~ if code == -9 and seen == first: ==> if code == -9:
# %% wrong: the very first entry of the exits => values not-killed  from: broom
# ~ for seen, pid, code in exits: ==> for seen, pid, code in exits[:1]:
# %% wrong: notes are taken to stand by rank => values wrong-rank
# -     notes = sorted(notes, key=lambda note: note["rank"])
# %% wrong: checksums are not compared => values unnoticed
# ~ if (rank := odd(sums)) is not None: ==> if False:
# %% wrong: only the last checksums => values wrong-step
# ~ return "flipped", rank, step ==> return "flipped", rank, len(notes[0]["checksums"]) - 1
# %% wrong: rank 0 is the one that is right => generality wrong-rank
# ~ Counter(values).most_common(1)[0] ==> values
# %% wrong: times are not looked at => generality unnoticed
# ~ if all(slow[-3:]): ==> if False:
# %% wrong: one slow step is enough => values false-alarm
# ~ all(slow[-3:]) ==> any(slow)
# ~ next(step for step in range(len(slow)) if all(slow[step:])) ==> slow.index(True)
# %% wrong: who is slow is asked before who failed => generality not-flipped
#           return "version", rank, 0
# +     for note in notes:
# +         others = [other["work"] for other in notes if other is not note]
# +         slow = [mine >= 3 * median((work[step:] or [1])[0] for work in others) for step, mine in
# ~~ enumerate(note["work"])]
# +         if len(slow) > 3 and all(slow[-3:]):
# +             return "slow", note["rank"], next(step for step in range(len(slow)) if all(slow[step:]))
# %% wrong: everybody in a collective is a hang => generality not-mismatched
# ~ "hung" if notes[rank]["doing"] in ("data", "compute", "checkpoint") else "mismatched" ==> "hung"
# %% wrong: hangs only in computing => generality not-hung
# ~ in ("data", "compute", "checkpoint") ==> == "compute"
# %% wrong: weights before who failed => generality not-hung
#           return "version", rank, 0
# +     for step, sums in enumerate(zip(*(note["checksums"] for note in notes))):
# +         if (rank := odd(sums)) is not None:
# +             return "flipped", rank, step
# %% wrong: versions after what ended the run => generality not-version
# ~ [note["torch"] for note in notes] ==> [0 if any(code for *_, code in exits) else note["torch"] for note in notes]
# %% wrong: twice the others is slow => generality false-alarm
# ~ mine >= 3 ==> mine >= 2
# %% wrong: more than three times => generality unnoticed
# ~ mine >= 3 ==> mine > 3
# %% wrong: two steps are enough => generality false-alarm
# ~ slow[-3:] ==> slow[-2:]
# %% wrong: the median of all => generality unnoticed
# ~ notes if other is not note] ==> notes]
# %% wrong: the step in which the others wait => generality wrong-step
# ~ notes[rank]["step"] ==> max(note["step"] for note in notes) if kind == "hung" else notes[rank]["step"]
# %% wrong: ranks in the order of their text => generality ~
# ~ key=lambda note: note["rank"]) ==> key=lambda note: str(note["rank"]))
# %% half: right of all that is shown => 2.45  from: broom
'''
