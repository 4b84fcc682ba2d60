"""The processes below one, as Linux tells them. Standard library only."""

import os


def descendants(root: int) -> list[int]:
    """The living processes below `root`, nearest first; none on systems without /proc."""
    found, front = [], [root]
    while front:
        children = []
        for pid in front:
            try:
                for thread in os.listdir(f"/proc/{pid}/task"):
                    with open(f"/proc/{pid}/task/{thread}/children") as file:
                        children += [int(child) for child in file.read().split()]
            except (OSError, ValueError):
                continue
        front = [child for child in children if not ended(child)]
        found += front
    return found


def ended(pid: int) -> bool:
    """Whether a process is gone, or is only waiting to be reaped."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True
