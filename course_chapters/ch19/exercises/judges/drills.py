"""Answers to chapter 19's drills."""

DRILLS = {}
