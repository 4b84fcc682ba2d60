from course_chapters.ch14.exercises.disk import crashed
from course_grader.exercises import Anything, Card, DictOf, ListOf, Worth

CARD = Card(
    title="A checkpoint that survives the crash",
    text="""Write `save(disk, step, data)` and `load(disk)` for a disk that may lose power at any moment.

- `load` returns `(step, data)` of the newest undamaged checkpoint, or None. Once `save` has returned, no crash may lose
  its checkpoint. A crash during `save` leaves the one before it, or the new one, undamaged.
- A bit may flip in a file at any time. `load` must notice, and fall back to the newest checkpoint without damage: keep
  the newest **{{keep}}**.
- The disk has room for {{room}} checkpoints, not one more. A save that does not fit raises `OSError`; older checkpoints
  stay, and a smaller save works afterwards.
- After a crash the same job goes on: `save` is called again on the files that are left. Steps grow, also beyond 32
  bits. Files that are not yours must stay.
- Write at most `len(data)` + 1,000 bytes in one save.

The disk has `write(name, data)`, `read(name)`, `names()`, `rename(old, new)`, `remove(name)`, `sync(name)` and
`sync_folder()`. A file's content is safe after `sync`; new, renamed and removed names are safe after `sync_folder`.
Before that, any part may survive a crash. Changes of names survive in order, and contents in any order.""",
    **Worth(points=12, minutes=25, difficulty=3, importance=5),
    hints=(
        "After which calls is a new file safe, its name and its content? What may be removed only after that?",
        "Put a checksum of step and data into the file, for example `hashlib.sha256`. Then `load` can tell a whole "
        "file from any other. What could a crash have left behind that takes up the room?",
        "Remove your leftovers and all but the newest whole checkpoints; then `write`, `sync`, `sync_folder`. `load` "
        "reads all files of yours and takes the highest step whose checksum is right.",
    ),
    answers=("save", "load"),
    allowed="plain Python, `hashlib`, `struct`, `zlib`; nothing of this process survives the crash, so remember "
    "nothing outside the disk.",
    hides=("course_lib.model.checkpoint.disk:write_durably",),
    params={"keep": 2, "room": 3},
    vary=lambda draw: {"keep": 3, "room": 4},
    probe=crashed,
    returns=DictOf({"found": ListOf(DictOf({"how": Anything("a text")}, more=True))}, more=True),
)
