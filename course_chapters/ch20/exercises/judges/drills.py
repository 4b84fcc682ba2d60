"""Answers to chapter 20's drills."""

DRILLS = {}
