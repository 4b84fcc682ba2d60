"""Ranks of an answer in processes that are not trusted: what they may send, and the judge's end of the wire."""
