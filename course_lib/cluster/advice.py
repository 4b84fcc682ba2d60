"""A deadlock in words: which ranks wait for each other, and what to do about it; and torch's error that there is no
process group."""

from graphlib import CycleError, TopologicalSorter

from course_lib.cluster.records import Wait
from course_lib.installation import called_here
from course_lib.messages import count_text

# what torch 2.8 to 2.13 say of a collective, and of a group that is to be made from the variables that torchrun sets
NO_GROUP = ("Default process group has not been initialized", "Error initializing torch.distributed using env://")
RANKS_HAVE_ONE = called_here(
    "Ranks have a group from the start: put the call into a function and run that with simulate(fn, ranks=4), or run a "
    "script with `./course meter --ranks 4 train.py`."
)


def without_group(error: BaseException) -> str:
    """Where torch.distributed has a group, after torch's error that there is none here; "" after any other error."""
    if not str(error).startswith(NO_GROUP):
        return ""
    from course_lib.cluster.endpoint import here  # loads torch, which is loaded where it raised this error

    end = getattr(here, "endpoint", None)
    if end is None:
        return f"This process is no rank. {RANKS_HAVE_ONE}"
    if end.is_remote:
        return "Ranks that a class's grader runs have no torch.distributed: call the same method of comm."
    return ""


def advice(shown: list[Wait], cycle: tuple[int, ...]) -> str:
    """A sentence or two for the learner; `cycle` are the ranks that wait for each other, if any do."""
    kinds = {wait.kind for wait in shown}
    if any("behind call" in wait.note for wait in shown):
        return (
            "On NCCL, the operations of a pair of ranks run in the order of issue. Start both halves with one "
            "batch_isend_irecv, or let one of the two ranks receive first."
        )
    if cycle and kinds == {"send"} and any(wait.what.startswith("isend") for wait in shown):
        return (
            "Each of these ranks waits for a send whose receive its peer has not posted. Post the receives before you "
            "wait for a send, and let each rank receive from the rank that sends to it."
        )
    if cycle and kinds == {"send"}:
        return (
            "All of these ranks send first, and a send returns only when its receive has been posted. "
            "Let one of them receive first, or use isend or batch_isend_irecv."
        )
    if cycle and kinds == {"recv"}:
        return "All of these ranks wait to receive before any of them sends. Let one of them send first."
    if "collective" in kinds:
        return "A collective returns only when every rank of its group has called it, in the same order."
    if kinds == {"poll"}:
        return (
            "A loop on is_completed() never ends here, because the other half is never posted. Look for the "
            "missing send or receive."
        )
    if not cycle:
        return "The other half is never posted. Compare the ranks and tags of the sends with those of the receives."
    return "Find the first call of the cycle that could come later, and swap it with the call after it."


def find_cycle(waits: tuple[Wait, ...]) -> tuple[int, ...]:
    """The ranks of one deadlock cycle, smallest first, or (). Follows every edge, not only the first."""
    try:
        TopologicalSorter({wait.rank: wait.waits_for for wait in waits}).prepare()
    except CycleError as error:
        cycle = error.args[1][:0:-1]  # it is given from awaited to waiting rank, and ends where it begins
        first = cycle.index(min(cycle))
        return (*cycle[first:], *cycle[:first])
    return ()


def deadlock_text(waits: tuple[Wait, ...], cycle: tuple[int, ...]) -> str:
    """What each rank waits for, the cycle, and what to do about it."""
    shown = [wait for wait in waits if wait.rank in cycle] or list(waits)
    lines = ["No rank can move."]
    lines += [f"  {wait}" for wait in shown[:8]]
    if len(waits) > len(shown[:8]):
        lines.append(f"  … and {count_text(len(waits) - len(shown[:8]), 'more waiting rank')}")
    if cycle:
        lines.append("They wait for each other in a cycle: " + " → ".join(map(str, (*cycle, cycle[0]))) + ".")
    return "\n".join([*lines, advice(shown, cycle)])
