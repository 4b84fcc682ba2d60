"""The learner's side: the work folder and its updates, progress, drills, and a look at the machine."""
