"""What several of chapter 06's judges use."""

from course_grader.judging import ranks

ADVERSE = (ranks.LATE, ranks.BUFFERS_LATE)
