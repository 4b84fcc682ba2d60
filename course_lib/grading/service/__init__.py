"""Grading a class: tasks, processes that mark them, one writer of the gradebook, and the loop that nothing gets lost in."""
