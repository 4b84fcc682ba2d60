"""Runs the course: the command line, setting up, the learner's folder and notebook functions, the trainer of one's own,
the web pages."""
