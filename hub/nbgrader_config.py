"""Where `nbgrader submit` puts what a student hands in."""

c = get_config()  # noqa: F821 (nbgrader gives it to this file)

c.Exchange.root = "/srv/exchange"
c.CourseDirectory.course_id = "autumn-26"  # the name given to `./course class init`
