"""The shipped answers of every exercise, right and wrong, and what is done with them: the kill matrix and mutants."""
