"""Grading a class: tasks, processes that grade them, one writer of the gradebook, and a run that can be interrupted at
any time.
"""
