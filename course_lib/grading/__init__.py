"""Grading, from a notebook to points: `judge` decides, `worker` runs answers, `sandbox` keeps them in; `classroom` and `service` grade a class."""
