"""The web services of Canvas and Moodle, as far as a class needs them: one assignment's students and grades.

Tokens come from the environment only. They travel encrypted and to the named site alone, and no message shows them.
"""

import http.client
import json
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlencode, urlsplit

from course_grader.clean_text import clean
from course_lib.messages import Trouble, count_text

PAGE = 100  # people of one answer
TRIES = 6  # of a request that is told to wait
PATIENCE = 300.0  # s for a job of Canvas's
_ADDRESS = re.compile(
    r"(?P<site>https?://[^\s/@?#]+(?:/[^\s?#]*?)?)"
    r"(?:/courses/(?P<course>\d+)/assignments/(?P<number>\d+)|/mod/assign/view\.php\?(?:[^#\s]*&)?id=(?P<activity>\d+))"
    r"(?:[/?#&]\S*)?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A student as the LMS has them."""

    number: str
    keys: frozenset[str]  # what names them there, in lower case; "#" and the number among them
    grade: float | None = None
    fixed: str = ""  # why the grade is not to be changed


class Gradebook(Protocol):
    """One assignment of an LMS."""

    name: str  # of the LMS
    title: str
    maximum: float

    def people(self) -> list[Person]:
        """The students who can have a grade, with the one they have."""

    def send(self, given: Mapping[str, float]) -> None:
        """Set the grades of these people, by number."""


def gradebook_at(address: str) -> tuple[Gradebook, str]:
    """The assignment at an address as a browser shows it, and the address without what the browser adds."""
    if not address:
        raise Trouble(
            "It is not known which assignment of the LMS the chapter belongs to.",
            "open the assignment in Canvas or Moodle and copy its address: course class push 06 --to ADDRESS",
        )
    found = _ADDRESS.fullmatch(address.strip())
    if found is None:
        raise Trouble(
            f"{clean(address, 200)!r} is not the address of an assignment.",
            "it looks like https://canvas.example.edu/courses/12/assignments/345 or "
            "https://moodle.example.edu/mod/assign/view.php?id=678",
        )
    site = found["site"]
    if urlsplit(site).scheme != "https" and urlsplit(site).hostname not in ("127.0.0.1", "::1", "localhost"):
        raise Trouble(f"{site} is not encrypted, and a token must not travel openly.", "use the address with https://")
    if found["course"]:
        place = f"/courses/{found['course']}/assignments/{found['number']}"
        return Canvas(site, found["course"], place), site + place
    return Moodle(site, found["activity"]), f"{site}/mod/assign/view.php?id={found['activity']}"


class Canvas:
    """An assignment of Canvas: its REST API, with grades in jobs of many."""

    name = "Canvas"

    def __init__(self, site: str, course: str, place: str) -> None:
        self.api, self.course, self.place = f"{site}/api/v1", course, place
        self.token = _token("CANVAS_TOKEN", "in Canvas, Account → Settings → New Access Token makes one")
        found = self._ask(self.api + place)[0]
        self.title, self.maximum = str(found.get("name")), float(found.get("points_possible") or 0)
        for odd, why in (
            (not found.get("published", True), "is not published"),
            (found.get("grading_type") in ("pass_fail", "not_graded"), "has no points (its grading type)"),
            (found.get("anonymize_students"), "hides whose work is whose"),
        ):
            if odd:
                way = "change that in the assignment's settings, or use `./course class export --to canvas`"
                raise Trouble(f"“{self.title}” {why} in Canvas.", way)

    def people(self) -> list[Person]:
        """The course's students; the test student is none."""
        theirs = {str(each["user_id"]): each for each in self._pages(f"{self.place}/submissions?per_page={PAGE}")}
        users = f"/courses/{self.course}/users?enrollment_type[]=student&include[]=email&per_page={PAGE}"
        return [self._person(each, theirs.get(str(each["id"]))) for each in self._pages(users)]

    def _person(self, user: Mapping[str, object], theirs: Mapping[str, Any] | None) -> Person:
        number, keys = str(user["id"]), [user.get(name) for name in ("login_id", "email", "sis_user_id")]
        grade, fixed = None, "" if theirs is not None else "the assignment is not for them"
        if theirs is not None:
            entered = theirs.get("entered_score")  # before Canvas's own deduction for lateness
            grade = theirs.get("score") if entered is None else entered
            if theirs.get("missing") and theirs.get("grader_id") is None:  # Canvas's own 0 for missing work
                grade = None
            fixed = "excused" if theirs.get("excused") else ""
        return Person(number=number, keys=_keys(number, keys), grade=grade, fixed=fixed)

    def send(self, given: Mapping[str, float]) -> None:
        """Start a job that sets these grades, and wait for its end."""
        data = {f"grade_data[{number}][posted_grade]": f"{grade:.2f}" for number, grade in given.items()}
        job = self._ask(f"{self.api}{self.place}/submissions/update_grades", urlencode(data).encode())[0]
        until = time.monotonic() + PATIENCE
        while job.get("workflow_state") in ("queued", "running") and time.monotonic() < until:
            time.sleep(1.0)
            job = self._ask(f"{self.api}/progress/{job['id']}")[0]
        if job.get("workflow_state") != "completed":
            said = clean(str(job.get("message") or job.get("workflow_state")), 200)
            raise Trouble(f"Canvas did not finish setting {count_text(len(given), 'grade')}: {said}.", _AGAIN)

    def _pages(self, path: str) -> Iterator[dict[str, object]]:
        """The entries of a list, page by page; only the site that was asked is followed."""
        address = self.api + path
        while address:
            entries, headers = self._ask(address)
            yield from entries
            found = re.search(r'<([^>]+)>;\s*rel="next"', headers.get("Link") or "")
            address = found[1] if found else ""
            if address and urlsplit(address)[:2] != urlsplit(self.api)[:2]:
                raise Trouble(f"Canvas names a next page on another site: {clean(address, 200)}.", _ASK_HOST)

    def _ask(self, address: str, data: bytes | None = None) -> tuple[Any, Mapping[str, str]]:
        return _ask(self.name, address, data, self.token, {"Authorization": f"Bearer {self.token}"})


class Moodle:
    """An activity of Moodle: grades go into its gradebook, which leaves the comments of the assignment alone.

    (`mod_assign_save_grades` replaces comments, and ignores points where a rubric is used.)
    """

    name = "Moodle"

    def __init__(self, site: str, activity: str) -> None:
        self.server, self.activity = f"{site}/webservice/rest/server.php", int(activity)
        self.token = _token(
            "MOODLE_TOKEN", "in Moodle, Preferences → Security keys shows it once the site has a service"
        )
        found = self._call("core_course_get_course_module", cmid=self.activity)["cm"]
        self.title, self.course, self.module = str(found["name"]), int(found["course"]), str(found["modname"])
        self.items = self._items()
        item = next(iter(self.items.values()), {})
        if not item or item.get("scaleid"):
            why = "is graded by a scale" if item else "has no students, or no points"
            raise Trouble(f"“{self.title}” {why} in Moodle.", "set its grade type to Point, or use `class export`")
        self.maximum = float(item.get("grademax") or 0)

    def _items(self) -> dict[str, dict[str, Any]]:
        """Student's number -> this activity in their gradebook."""
        found = self._call("gradereport_user_get_grade_items", courseid=self.course)["usergrades"]
        return {
            str(each["userid"]): item
            for each in found
            for item in each["gradeitems"]
            if item.get("cmid") == self.activity and not item.get("itemnumber")
        }

    def people(self) -> list[Person]:
        """Everybody who can have a grade in this activity."""
        items, found, page = self._items(), [], 0
        while True:
            span = (("limitfrom", page * PAGE), ("limitnumber", PAGE))
            options = [{"name": name, "value": value} for name, value in span]
            users = self._call("core_enrol_get_enrolled_users", courseid=self.course, options=options)
            found += [self._person(each, items[str(each["id"])]) for each in users if str(each["id"]) in items]
            page += 1
            if len(users) < PAGE:
                return found

    def _person(self, user: Mapping[str, object], item: Mapping[str, Any]) -> Person:
        fixed = "locked" if item.get("locked") or item.get("gradeislocked") else ""
        fixed = "set in the gradebook by a person (overridden)" if item.get("gradeisoverridden") else fixed
        number, keys = str(user["id"]), [user.get(name) for name in ("username", "email", "idnumber")]
        return Person(number=number, keys=_keys(number, keys), grade=item.get("graderaw"), fixed=fixed)

    def send(self, given: Mapping[str, float]) -> None:
        """Set these grades in the gradebook."""
        state = self._call(
            "core_grades_update_grades",
            source="course class push",
            courseid=self.course,
            component=f"mod_{self.module}",
            activityid=self.activity,
            itemnumber=0,
            grades=[{"studentid": number, "grade": f"{grade:.2f}"} for number, grade in given.items()],
        )
        if state != 0:
            why = {1: "it failed", 2: "there are several grade items", 4: "the item is locked"}.get(state, repr(state))
            raise Trouble(f"Moodle did not set {count_text(len(given), 'grade')}: {why}.", _ASK_HOST)

    def _call(self, function: str, **parameters: object) -> Any:
        """What a function of the web service returns; Moodle answers an error with status 200 and an exception."""
        asked = {"wstoken": self.token, "wsfunction": function, "moodlewsrestformat": "json", **_flat(parameters)}
        found = _ask(self.name, self.server, urlencode(asked).encode(), self.token)[0]
        if isinstance(found, dict) and ("exception" in found or "errorcode" in found):
            code, said = str(found.get("errorcode")), clean(str(found.get("message")), 200)
            way = _MOODLE_WAYS.get(code, f"the token's user needs the rights for {function} in this course")
            raise Trouble(f"Moodle refuses {function} ({code}): {said.rstrip('.')}.", way)
        return found


_AGAIN = "the same command goes on where it was"
_ASK_HOST = "ask whoever runs the LMS, or use `./course class export`"
_MOODLE_WAYS = {
    "invalidtoken": "set MOODLE_TOKEN to a token that is valid on this site",
    "accessexception": "the site's service must contain core_course_get_course_module, core_enrol_get_enrolled_users, "
    "gradereport_user_get_grade_items and core_grades_update_grades; its administrator adds them",
    "invalidrecord": "copy the address of the assignment again; this site has no such activity",
    "invalidcoursemodule": "copy the address of the assignment again; this site has no such activity",
    "enablewsdescription": "the site's administrator has to enable web services",
}


def _token(variable: str, way_out: str) -> str:
    token = os.environ.get(variable, "").strip()
    if not token or not re.fullmatch(r"[!-~]+", token):
        problem = "is not set" if not token else "holds characters that no token has"
        raise Trouble(f"The environment variable {variable} {problem}.", f"{way_out}; then export {variable}=…")
    return token


def _keys(number: str, names: Iterable[object]) -> frozenset[str]:
    return frozenset({f"#{number}", *(str(name).casefold() for name in names if name)})


def _flat(value: object, name: str = "") -> dict[str, object]:
    """Nested parameters as PHP reads them: {"grades[0][grade]": 3}."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if pairs is None:
        return {name: value}
    return {key: each for at, part in pairs for key, each in _flat(part, f"{name}[{at}]" if name else str(at)).items()}


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the token to another address."""

    def redirect_request(self, *_: object) -> None:
        return None


def _ask(
    lms: str, address: str, data: bytes | None, token: str, headers: Mapping[str, str] | None = None
) -> tuple[Any, Mapping[str, str]]:
    """What an LMS answers, as data, and its headers. A busy LMS is asked again, ever more slowly."""
    site = urlsplit(address).netloc
    request = urllib.request.Request(address, data, {"Accept": "application/json", **(headers or {})})
    for turn in range(TRIES):
        try:
            with urllib.request.build_opener(_NoRedirect).open(request, timeout=60) as answer:
                text = answer.read().decode("utf-8", "replace")
            try:
                return json.loads(text), answer.headers
            except ValueError as error:
                begin = clean(text.strip(), 60)
                problem = f"{site} does not answer like {lms}'s web service: {begin!r}."
                raise Trouble(problem, f"check the address; {_ASK_HOST}") from error
        except urllib.error.HTTPError as error:
            said = error.read(20_000).decode("utf-8", "replace").replace(token, "…")
            busy = error.code in (429, 502, 503, 504) or (error.code == 403 and "rate limit" in said.casefold())
            if not busy:
                raise _refused(lms, site, error, said) from error
            wait, problem = error.headers.get("Retry-After", ""), f"{site} is busy (status {error.code})"
        except (OSError, http.client.HTTPException) as error:
            cause = getattr(error, "reason", error)
            if not isinstance(cause, TimeoutError | ConnectionResetError | http.client.HTTPException):
                way = "check the address and the network; HTTPS_PROXY names a proxy, SSL_CERT_FILE its certificate"
                raise Trouble(f"{site} cannot be reached: {cause}.", way) from error
            wait, problem = "", f"{site} does not answer ({type(cause).__name__})"
        if turn < TRIES - 1:
            time.sleep(min(float(wait) if wait.isdigit() else 2.0**turn, 60.0))
    raise Trouble(f"{problem}, also after {TRIES} tries.", f"wait some minutes; {_AGAIN}")


def _refused(lms: str, site: str, error: urllib.error.HTTPError, said: str) -> Trouble:
    """An HTTP error in words."""
    if 300 <= error.code < 400:
        target = clean(error.headers.get("Location", "another address"), 200)
        return Trouble(f"{site} sends on to {target}.", "give the address that your browser shows after logging in")
    messages = re.findall(r'"message"\s*:\s*"([^"]{1,200})', said)
    words = f": {clean(messages[0], 200).rstrip('.')}" if messages else ""
    way = {
        401: f"the token is wrong, has run out, or its owner may not do this; set a new one as {lms.upper()}_TOKEN",
        403: "the token's owner may not grade this assignment",
        404: "copy the address of the assignment again; the token's owner does not see it",
    }.get(error.code, _ASK_HOST)
    return Trouble(f"{site} refuses (status {error.code}){words}.", way)
