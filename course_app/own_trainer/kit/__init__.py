"""A small trainer for a small transformer, assembled from parts: the files in `parts` are the mechanisms of distributed
training.

`run.train(comm, settings, parts)` trains on the ranks of a communicator; `run` is also the command line. It needs
torch, and of the course `course_lib.cluster` alone.
"""
