from collections.abc import Mapping
from typing import TypedDict

from course_chapters.ch14.exercises.disk import OTHERS, ROUNDS, digest
from course_grader.judging import Case, Fault, Judging, Params, Random, describe, hidden, is_number, judged, shown
from course_grader.judging.cases import Maker

SIZE, EXTRA = 400, 1000  # bytes of a checkpoint's data, and what its files may hold besides


def _cases(params: Params, rng: Random) -> list[Case]:
    keep, room = params["keep"], params["room"]

    def bytes_of(size: int) -> bytes:
        return rng.randbytes(size)

    def case(make: Maker, name: str, share: str, what: str, steps: list[int], following: int, size: int = SIZE) -> Case:
        space = room * (size + EXTRA) + 100
        saves = [(step, bytes_of(size)) for step in steps]
        return make(name, share, what, space, saves, (following, bytes_of(size)), keep - 1)

    large = 40_000  # so that one more checkpoint does not fit into the extra bytes of the others
    twelve = [8, 9, 10, 40, 99, 100, 101, 1000, 1001, 1010, 9999, 2**34]
    return [
        case(shown, "three saves, no crash", "values:saved", "plain", [1, 2, 3], 4),
        case(shown, "two saves, killed before every operation", "values:crashes", "kills", [1, 2], 3),
        case(hidden, "twelve saves, steps with gaps", "values:saved", "plain", twelve, 2**34 + 1, large),
        case(hidden, "three saves of no data", "values:saved", "plain", [1, 2, 3], 4, 0),
        case(hidden, "one save, killed before every operation", "values:crashes", "kills", [7], 8),
        case(hidden, "five saves, each killed", "values:crashes", "kills", [9, 10, 20, 100, 101], 1000, large),
        case(hidden, "a save that does not fit", "generality:full-disk", "full", [3, 5, 8], 9, large),
        case(hidden, "the first saves, and one that does not fit", "generality:full-disk", "full", [1], 2),
        case(hidden, "a flipped bit", "generality:damage", "damage", [4, 5, 6, 10], 11, 70_000),
        case(hidden, "a flipped bit in little data", "generality:damage", "damage", [98, 99, 100], 101, 1),
    ]


def _finding_fault(case: Case, finding: Mapping[str, object], keep: int) -> Fault | None:
    lead = f"{finding['how']}: "
    if finding.get("full") is True:
        return "no-room", f"{lead}leftovers or old checkpoints take up the room."
    _, _, saves, following, _ = case.args
    data = {step: digest(content) for step, content in saves}
    data |= dict.fromkeys(range(following[0], following[0] + ROUNDS + 1), digest(following[1]))
    loaded, found = finding.get("loaded"), map(finding.get, ("done", "doing", "damaged"))
    numbers = [each for each in found if each is None or type(each) is int]
    if len(numbers) < 3 or (numbers[2] or 0) not in range(len(saves)):
        return "wrong-shape", f"{lead}{describe(finding)} is no finding."
    done, doing, damaged = numbers
    if type(loaded) is str:
        return "load-raised", f"{lead}`load` raises {loaded}."
    if finding.get("notes") is not True:
        return "others-touched", f"{lead}a file of somebody else, such as {OTHERS!r}, was changed or removed."
    if loaded is None and done is None:
        return None
    if loaded is None:
        return "nothing-loads", f"{lead}`load` finds nothing, although save {done} had returned."
    if type(loaded) is not list or len(loaded) != 2 or type(loaded[0]) is not int:
        return "wrong-shape", f"{lead}`load` returns (step, data) or None; got {describe(loaded)}."
    step, content = loaded
    if step not in data:
        return "no-such-step", f"{lead}`load` returns step {step}, which was never saved."
    if type(content) is not str or content != data[step]:
        return "damaged-data", f"{lead}`load` returns step {step} with data that was not saved."
    known = [each for each, _ in saves]
    if damaged and step < (oldest := known[-1 - damaged]):
        return "too-old", f"{lead}step {oldest} or a newer one is undamaged, but `load` returns step {step}."
    if damaged:
        return None
    if done is not None and step < done:
        return "lost-save", f"{lead}save {done} had returned, but `load` returns step {step}."
    newest = doing if doing is not None else done
    if newest is None or step > newest:
        return "no-such-step", f"{lead}`load` returns step {step}, which was not saved yet."
    return None


class Told(TypedDict, total=False):
    """What is told of a case."""

    found: list[Mapping[str, object]]
    raised: object
    written: object
    stored: object


def _fault(params: Params, case: Case, got: Told) -> Fault | None:
    for finding in got["found"]:
        if fault := _finding_fault(case, finding, params["keep"]):
            return fault
    if case.args[0] == "full" and got.get("raised") is not True:
        return "no-error", "a save that does not fit must raise OSError."
    if case.args[0] == "plain":
        most = sum(len(data) + EXTRA for _, data in case.args[2])
        written, stored = got.get("written"), got.get("stored")
        if not is_number(stored) or stored < len(case.args[2][-1][1]):
            told = f"all files have {describe(stored)} bytes if compressed, less than the data of one save."
            return "not-on-disk", told
        if not is_number(written) or written > most:
            told = f"{describe(written)} bytes were written; {most:,} are enough. Was older data written again?"
            return "rewrites", told
    return None


JUDGING = Judging(
    shares="values:saved 0.1, values:crashes 0.5, generality:full-disk 0.15, generality:damage 0.25",
    cases=_cases,
    verdicts=lambda params, case, outcome: judged(case, _fault(params, case, outcome.value), named=True),
    why="""The order is everything: first the content is made durable, then its name, and only then may an older
checkpoint go. The checksum turns "was it written to the end?" into a question that `load` can answer from the file
alone, so neither a crash nor a flipped bit can pass for a checkpoint. What a crash leaves behind is removed by the next
save, or the disk fills up.""",
    pytorch="`torch.distributed.checkpoint` writes each rank's files, then `.metadata` last by rename; "
    "`FileSystemWriter(sync_files=True)` syncs them. It has no checksums.",
)

ANSWERS = r'''# %% right: worked
keep = params("atomic-checkpoint").keep  # leave as is


def whole(disk) -> dict[int, str]:
    """A helper, which you may replace: the undamaged checkpoint files on the disk, by step."""
    found = {}
    for name in disk.names():
        blob = disk.read(name)
        if name.startswith("step-") and hashlib.sha256(blob[32:]).digest() == blob[:32]:
            found[int.from_bytes(blob[32:40], "big")] = name
    return found


def save(disk, step: int, data: bytes) -> None:
    """Writes a checkpoint that survives a crash once this returns."""
    found = whole(disk)
    newest = [found[each] for each in sorted(found)[-keep:]]
    for name in disk.names():
        if name.startswith("step-") and name not in newest:
            disk.remove(name)  # an old one, or what a crash left behind
    body = step.to_bytes(8, "big") + data
    disk.write(f"step-{step}", hashlib.sha256(body).digest() + body)
    disk.sync(f"step-{step}")  # its content is safe
    disk.sync_folder()  # and so is its name


def load(disk) -> tuple[int, bytes] | None:
    """The newest undamaged checkpoint as (step, data), or None."""
    found = whole(disk)
    return (max(found), disk.read(found[max(found)])[40:]) if found else None
# %% right: temporary names and a rename
# ~ if name.startswith("step-") and name not in newest:
# ~~ ==> if name.startswith(("step-", "tmp.")) and name not in newest:
# ~ disk.write(f"step-{step}" ==> disk.write("tmp.new"
# -     disk.sync(f"step-{step}")  # its content is safe
# +     disk.sync("tmp.new")
# +     disk.rename("tmp.new", f"step-{step}")
# %% wrong: the content is not synced => values nothing-loads
# -     disk.sync(f"step-{step}")  # its content is safe
# %% wrong: the name is not synced => values nothing-loads
# -     disk.sync_folder()  # and so is its name
# %% wrong: no checksum => values damaged-data
# ~ hashlib.sha256(blob[32:]).digest() == blob[:32] ==> len(blob) >= 40
# %% wrong: in place => values nothing-loads
# ~ disk.write(f"step-{step}" ==> disk.write("step-0"
# ~ disk.sync(f"step-{step}") ==> disk.sync("step-0")
# %% wrong: the old one goes first => values nothing-loads
# ~ if name.startswith("step-") and name not in newest: ==> if name.startswith("step-"):
# %% wrong: leftovers stay => values no-room
# ~ if name.startswith("step-") and name not in newest: ==> if name in found.values() and name not in newest:
# %% wrong: only the newest stays => generality nothing-loads
#       disk.sync_folder()  # and so is its name
# +     for name in newest:
# +         disk.remove(name)
# +     disk.sync_folder()
# %% wrong: none is removed => values raised
# ~ disk.remove(name) ==> pass
# %% wrong: names as text => values lost-save
# ~ max(found), disk.read(found[max(found)]) ==> int(max(map(str, found))), disk.read(found[int(max(map(str, found)))])
# %% wrong: everything else is removed => values others-touched
# ~ if name.startswith("step-") and name not in newest: ==> if name not in newest:
# %% wrong: a checksum of the data alone => generality no-such-step
# ~ hashlib.sha256(blob[32:]) ==> len(blob) >= 40 and hashlib.sha256(blob[40:])
# ~ (body) ==> (data)
# %% wrong: a full disk is passed over => generality no-error
# -     disk.write(f"step-{step}", hashlib.sha256(body).digest() + body)
# +     try:
# +         disk.write(f"step-{step}", hashlib.sha256(body).digest() + body)
# +     except OSError:
# +         return
# %% wrong: the checkpoint is written twice => values rewrites
#       disk.write(f"step-{step}", hashlib.sha256(body).digest() + body)
# +     disk.write(f"step-{step}", hashlib.sha256(body).digest() + body)
# %% wrong: one whole checkpoint during a save => generality nothing-loads
# ~ [-keep:]] ==> [-1:]]
'''
