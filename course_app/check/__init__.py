"""`course check`: a learner's own chapters graded on their machine."""
