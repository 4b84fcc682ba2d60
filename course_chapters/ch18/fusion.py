"""Which kernels of a step a compiler can fuse, and the bytes that no longer pass through memory.

A fused kernel reads each tensor from outside once, keeps what only it needs in registers, and writes what others need.
The rules are those of a compiler such as TorchInductor in their simplest form: pointwise kernels and reductions over
rows fuse with what they share a tensor with; matmuls, attention and scattered reads stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from course_chapters.ch18.kernels import Kernel

FUSIBLE = ("pointwise", "reduction")


def groups(kernels: Sequence[Kernel]) -> list[list[int]]:
    """The kernels' places, in groups that become one kernel each; in an order in which they can be launched."""
    found: list[list[int]] = []
    needs: list[set[int]] = []  # of each group, all groups before it, directly or not
    writer: dict[int, int] = {}  # tensor -> the group that wrote it last
    readers: dict[int, set[int]] = {}
    for place, kernel in enumerate(kernels):
        before = {writer[each] for each in {*kernel.reads, *kernel.writes} if each in writer}
        before |= {group for each in kernel.writes for group in readers.get(each, ())}
        shared = [group for each in kernel.reads for group in ({writer.get(each, -1)} | readers.get(each, set()))]
        mine = next(
            (each for each in sorted(shared, reverse=True) if _joins(kernels, found, needs, each, place, before)), -1
        )
        if mine < 0:
            mine = len(found)
            found.append([])
            needs.append(set())
        found[mine].append(place)
        needs[mine] |= {each for group in before - {mine} for each in (group, *needs[group])}
        for needed in needs:
            if mine in needed:
                needed |= needs[mine]
        writer |= dict.fromkeys(kernel.writes, mine)
        for tensor in kernel.reads:
            readers.setdefault(tensor, set()).add(mine)
    order = sorted(range(len(found)), key=lambda group: len(needs[group]))
    return [found[group] for group in order]


def _joins(
    kernels: Sequence[Kernel],
    found: Sequence[Sequence[int]],
    needs: Sequence[set[int]],
    group: int,
    place: int,
    before: set[int],
) -> bool:
    """Whether a kernel can join a group: both fusible, the same iteration space, and nothing between them."""
    kernel = kernels[place]
    if group < 0 or kernel.kind not in FUSIBLE or kernels[found[group][0]].kind not in FUSIBLE:
        return False
    if any(group in needs[each] for each in before - {group}):  # what it needs needs the group
        return False
    members = [kernels[each] for each in found[group]]
    widest = max(members, key=lambda each: each.elements)
    spaces = {widest.elements, widest.rows}
    whole = {tensor for each in members if not each.by_row for tensor in each.writes}
    return (kernel.elements in spaces or widest.elements == kernel.rows) and not whole & set(kernel.reads)


def fuse(kernels: Sequence[Kernel]) -> tuple[Kernel, ...]:
    """The kernels after fusion. A tensor that no kernel reads is a result, and is written."""
    made = []
    for members in groups(kernels):
        inside = set(members)
        reads: dict[int, float] = {}
        writes: dict[int, float] = {}
        for place in members:
            for tensor, size in kernels[place].reads.items():
                if tensor not in writes:
                    reads[tensor] = max(size, reads.get(tensor, 0.0))
            writes |= kernels[place].writes
        outside = {tensor for place, each in enumerate(kernels) if place not in inside for tensor in each.reads}
        within = {tensor for place in members for tensor in kernels[place].reads}
        kept = {tensor: size for tensor, size in writes.items() if tensor in outside or tensor not in within}
        parts = tuple(kernels[place].name for place in members)
        widest = max((kernels[place] for place in members), key=lambda each: each.elements)
        kind = "reduction" if any(kernels[place].kind == "reduction" for place in members) else widest.kind
        flop = sum(kernels[place].flop for place in members)
        made.append(Kernel(" + ".join(parts), kind, flop, reads, kept, widest.elements, widest.rows, parts=parts))
    return tuple(made)
