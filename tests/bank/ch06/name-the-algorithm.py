# %% right: partners first, then bytes
def name_algorithm(matrix, nbytes):
    n = len(matrix)
    partners = [{d for d in range(n) if matrix[s][d]} for s in range(n)]
    if all(len(each) == n - 1 for each in partners):
        return "everyone to everyone" if matrix[0][1] == nbytes else "all-to-all"
    if all(each == {(s + 1) % n} for s, each in enumerate(partners)):
        return "whole-tensor ring" if matrix[0][1] > 2 * nbytes else "ring"
    if all(each == {0} for each in partners[1:]):
        return "naive root"
    spoken = sum(map(len, partners))
    core = 1 << (n.bit_length() - 1)
    if spoken == 2 * (n - 1):
        return "tree"
    return "halving-doubling" if abs(matrix[0][core // 2] - nbytes) <= 64 else "hierarchical"


# %% right: compares with what each would send
def name_algorithm(matrix, nbytes):
    n, used = len(matrix), {(s, d) for s, row in enumerate(matrix) for d, sent in enumerate(row) if sent}
    biggest = max(map(max, matrix))
    ring = {(r, (r + 1) % n) for r in range(n)}
    everyone = {(s, d) for s in range(n) for d in range(n) if s != d}
    root = {(r, 0) for r in range(1, n)} | {(0, r) for r in range(1, n)}
    tree = set()
    for child in range(1, n):
        parent = child - (1 << (child.bit_length() - 1))
        tree |= {(child, parent), (parent, child)}
    core = 1 << (n.bit_length() - 1)
    halves = {(r, r ^ (1 << k)) for r in range(core) for k in range(core.bit_length() - 1)}
    halves |= {pair for r in range(core, n) for pair in ((r, r - core), (r - core, r))}
    for shape, small, large in ((ring, "ring", "whole-tensor ring"), (everyone, "all-to-all", "everyone to everyone")):
        if used == shape:
            return large if biggest >= nbytes * (0.999 if shape is everyone else 2.5) else small
    for shape, name in ((root, "naive root"), (tree, "tree"), (halves, "halving-doubling")):
        if used == shape and (name != "halving-doubling" or matrix[0][core // 2] > 0.98 * nbytes - 64):
            return name
    return "hierarchical"


# %% wrong: every ring is a good one => values not-ring  from: partners first, then bytes
# ~ return "whole-tensor ring" if matrix[0][1] > 2 * nbytes else "ring" ==> return "ring"
# ~ abs(matrix[0][core // 2] - nbytes) ==> abs(matrix[0][n // 2] - nbytes)

# %% wrong: does not look at bytes in a full matrix => values not-all-to-all  from: every ring is a good one
# ~ return "everyone to everyone" if matrix[0][1] == nbytes else "all-to-all" ==> return "all-to-all"
# ~ return "ring" ==> return "whole-tensor ring" if matrix[0][1] > 2 * nbytes else "ring"

# %% wrong: halving-doubling only for powers of two => generality not-hierarchical  from: partners first, then bytes
# ~ if abs(matrix[0][core // 2] - nbytes) <= 64 ==> if core == n and abs(matrix[0][core // 2] - nbytes) <= 64

# %% wrong: knows eight ranks only => generality -  from: partners first, then bytes
#       n = len(matrix)
# +     if n != 8:
# +         return "ring"

# %% wrong: trees of at most twelve ranks => generality -  from: partners first, then bytes
# ~ if spoken == 2 * (n - 1): ==> if n < 13 and spoken == 2 * (n - 1):

# %% wrong: always the same => values -  from: a name of its own
# ~ butterfly ==> ring

# %% wrong: a name of its own => values no-such-word  from: nothing
# ~ None ==> "butterfly"


# %% wrong: nothing => values returned-none
def name_algorithm(matrix, nbytes):
    return None


# %% half: powers of two only => 4.8  from: halving-doubling only for powers of two
