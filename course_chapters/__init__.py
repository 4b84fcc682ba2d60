"""The chapters: `chNN` holds all of one: what its notebook imports (`page`), its tables, pictures and sliders, and its
exercises.

`from course_chapters.chNN.page import *` gives a notebook every name bound there that does not begin with an
underscore.
"""
