"""Answers to deadlocked-1f1b that hold more than they need, beside those of its bank; a count inside the notebook may be doctored."""


# %% hungry: the count is set back <= GPipe, which does not hang and holds everything

holds_all = run_1f1b


def run_1f1b(comm, forward, backward, empty, microbatches):
    holds_all(comm, forward, backward, empty, microbatches)
    for cell in forward.__closure__ or ():
        if hasattr(cell.cell_contents, "_held"):
            cell.cell_contents._held = 1
