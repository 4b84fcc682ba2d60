"""Answers to chapter 18's drills."""

DRILLS = {}
