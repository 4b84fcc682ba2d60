"""Attacks and accidents that the grader must withstand, and what each may change: nothing. `course class self-test`
runs them."""
