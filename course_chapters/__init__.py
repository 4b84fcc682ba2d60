"""What a chapter's notebook imports in its first cell, and the chapter's own tables and plots.

`chNN/__init__.py` holds imports only: `from course_chapters.chNN import *` gives a notebook every name bound there that does
not begin with an underscore. The other modules of `chNN` hold tables, plots and sweeps that would hide the idea in a cell.

A notebook computes with one thread: its tensors are small, and on a busy machine several threads mostly wait for each other.
"""

from course_grader.arithmetic import loading_with_one_thread

with loading_with_one_thread():
    import numpy  # noqa: F401
    import torch  # noqa: F401
