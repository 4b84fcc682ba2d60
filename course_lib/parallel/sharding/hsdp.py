"""Hybrid sharding (HSDP): shard inside groups of nearby ranks, replicate across groups."""

from course_lib.cluster import Comm


def two_levels(comm: Comm, shard_ranks: int) -> tuple[Comm, Comm]:
    """This rank's two groups: the `shard_ranks` consecutive ranks that shard one model, and the ranks that hold the
    same part.

    Gathers stay inside the first group, which should be a node; only reduced parts cross groups, each in an all-reduce.
    All ranks of `comm` must call it. Zhao et al., "PyTorch FSDP" (2023), section 3.2.2.
    """
    if type(shard_ranks) is not int or shard_ranks < 1 or comm.size % shard_ranks:
        fits = [n for n in range(1, comm.size + 1) if comm.size % n == 0]
        raise ValueError(f"shard_ranks={shard_ranks!r} does not divide {comm.size} ranks; choose from {fits}.")
    copies = comm.size // shard_ranks
    inside = [comm.new_group([node * shard_ranks + place for place in range(shard_ranks)]) for node in range(copies)]
    across = [comm.new_group([node * shard_ranks + place for node in range(copies)]) for place in range(shard_ranks)]
    return inside[comm.rank // shard_ranks], across[comm.rank % shard_ranks]
