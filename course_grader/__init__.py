"""Grading, from a notebook to points: `judge` decides, `worker` runs answers, `sandbox` confines them; `classroom` and
`service` grade a class.
"""
