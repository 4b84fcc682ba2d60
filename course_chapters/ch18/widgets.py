"""Chapter 18's widgets: a layer launched in three ways."""

from course_chapters.ch18.launch_film import launches

__all__ = ["launches"]
