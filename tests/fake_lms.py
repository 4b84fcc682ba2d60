"""Canvas and Moodle on loopback, as far as their published web services say what a gradebook answers."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, parse_qsl, urlsplit

TOKEN = "7~s3cret"
PAGE = 2  # entries of a page, so that a class of six has three
COURSE, CANVAS, MOODLE = "/courses/12", "/courses/12/assignments/345", "/mod/assign/view.php?id=678"


class Fake:
    """One assignment of both: its students by number, their grades, and what else to answer first."""

    def __init__(self, students: list[dict[str, str]], maximum: float) -> None:
        self.students = students
        self.entries: dict[str, dict[str, object]] = {each["id"]: {"score": None} for each in students}
        self.about: dict[str, object] = {"name": "Walls", "points_possible": maximum, "published": True}
        self.item: dict[str, object] = {"grademax": maximum, "scaleid": None}
        self.first: list[tuple[str, int, dict[str, str], str]] = []  # part of an address, and the answer instead
        self.job: dict[str, object] = {"workflow_state": "completed"}
        self.seen: list[str] = []  # every request
        self.sent: list[dict[str, float]] = []
        self.dies = ""  # "before" or "after" grades are set

    def give(self, given: dict[str, float]) -> None:
        if self.dies == "before":
            raise ConnectionAbortedError
        self.sent.append(given)
        for number, grade in given.items():
            self.entries[number] |= {"score": grade, "entered_score": grade, "missing": False}
        if self.dies:
            raise ConnectionAbortedError

    # --- Canvas

    def canvas(self, path: str, query: dict[str, list[str]], body: str) -> tuple[object, dict[str, str]]:
        if path == CANVAS:
            return self.about, {}
        if path.endswith("/update_grades"):
            self.give({key.split("[")[1].rstrip("]"): float(value) for key, value in parse_qsl(body)})
            return {"id": 7, "workflow_state": "queued", "completion": 0}, {}
        if path == "/progress/7":
            return {"id": 7, "completion": 100, **self.job}, {}
        users = [{name: each.get(name) for name in ("id", "login_id", "email")} for each in self.students]
        rows = [{"user_id": int(number), **entry} for number, entry in self.entries.items()]
        found, at = users if path == f"{COURSE}/users" else rows, int(query.get("page", ["1"])[0])
        link = f'<http://{self.host}/api/v1{path}?page={at + 1}>; rel="next", <http://x>; rel="last"'
        return found[(at - 1) * PAGE : at * PAGE], {"Link": link} if at * PAGE < len(found) else {}

    # --- Moodle

    def moodle(self, asked: dict[str, str]) -> object:
        if asked["wstoken"] != TOKEN:
            return {"exception": "moodle_exception", "errorcode": "invalidtoken", "message": "Invalid token"}
        match asked["wsfunction"]:
            case "core_course_get_course_module":
                return {"cm": {"id": 678, "course": 12, "name": "Walls", "modname": "assign"}, "warnings": []}
            case "gradereport_user_get_grade_items":
                other: dict[str, object] = {"cmid": 1, "itemnumber": 0, "graderaw": 1.0}
                return {"usergrades": [self._grades(number, other) for number in self.entries], "warnings": []}
            case "core_enrol_get_enrolled_users":
                teacher = {"id": 1, "login_id": "teacher", "email": "ada@elsewhere.edu"}
                users = [{**each, "username": each["login_id"]} for each in [*self.students, teacher]]
                begin = int(asked["options[0][value]"])
                return users[begin : begin + int(asked["options[1][value]"])]
            case "core_grades_update_grades":
                pairs = {key: value for key, value in asked.items() if key.startswith("grades[")}
                count = len(pairs) // 2
                self.give(
                    {pairs[f"grades[{at}][studentid]"]: float(pairs[f"grades[{at}][grade]"]) for at in range(count)}
                )
                return self.job.get("state", 0)
        return {"exception": "webservice_access_exception", "errorcode": "accessexception", "message": "No access"}

    def _grades(self, number: str, other: dict[str, object]) -> dict[str, object]:
        entry = self.entries[number]
        mine = {"cmid": 678, "itemnumber": 0, "graderaw": entry["score"], **self.item, **entry}
        return {"userid": int(number), "gradeitems": [other, mine]}

    @contextmanager
    def serving(self) -> Iterator[str]:
        """The site's address."""
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                url = urlsplit(self.path)
                asked = dict(parse_qsl(body))
                fake.seen.append(f"{self.command} {self.path} {asked.get('wsfunction', '')}")
                ready = next((each for each in fake.first if each[0] in fake.seen[-1]), None)
                try:
                    if ready:
                        fake.first.remove(ready)
                        return self.answer(*ready[1:])
                    if url.path == "/webservice/rest/server.php":
                        return self.answer(200, {}, json.dumps(fake.moodle(asked)))
                    if self.headers["Authorization"] != f"Bearer {TOKEN}":
                        return self.answer(401, {}, '{"errors":[{"message":"Invalid access token."}]}')
                    found, more = fake.canvas(url.path.removeprefix("/api/v1"), parse_qs(url.query), body)
                    return self.answer(200, more, json.dumps(found))
                except ConnectionAbortedError:
                    self.close_connection = True

            do_POST = do_GET

            def answer(self, status: int, headers: dict[str, str], text: str) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            self.host = f"127.0.0.1:{server.server_port}"
            thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
            thread.start()
            try:
                yield f"http://{self.host}"
            finally:
                server.shutdown()
                thread.join()
