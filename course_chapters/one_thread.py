"""Loads the numerical libraries so that a notebook computes with one thread: its tensors are small, and on a busy
machine several threads mostly wait for each other.
"""

from course_grader.arithmetic import loading_with_one_thread

with loading_with_one_thread():
    import numpy  # noqa: F401
    import torch  # noqa: F401
