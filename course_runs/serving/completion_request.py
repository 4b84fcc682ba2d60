"""Completion requests: what a body asks for, why it is refused, and how much of its reply can be sent."""

import asyncio
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from course_lib.model import text
from course_runs.serving.engine import FINISHED, Generation
from course_runs.serving.paged_model import Sampling

_UNSUPPORTED: dict[str, object] = {  # fields of OpenAI's API, with the one value that changes nothing
    "n": 1,
    "best_of": 1,
    "echo": False,
    "logprobs": None,
    "logit_bias": {},
    "suffix": "",
    "top_p": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
}


class Refusal(Exception):
    """A request that gets an error: its HTTP status, and the fields of an OpenAI error."""

    def __init__(self, status: int, message: str, code: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.param = status, code, param

    @property
    def body(self) -> dict[str, object]:
        """The error as OpenAI's clients expect it."""
        kind = {429: "overloaded", 500: "server_error", 503: "unavailable"}.get(self.status, "invalid_request_error")
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


@dataclass(frozen=True)
class Asked:
    """A valid request."""

    prompt: tuple[int, ...]
    max_tokens: int
    stops: tuple[str, ...]
    sampling: Sampling
    stream: bool


def asked(body: bytes, model: str) -> Asked:
    """The request in a body; Refusal says which field is wrong and what it may be."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"The body is not JSON: {error}.", "invalid_json") from None
    if not isinstance(given, dict):
        raise Refusal(400, "The body must be a JSON object.", "invalid_json")
    if given.get("model") != model:
        raise Refusal(
            404, f"There is no model {given.get('model')!r}; this server has {model!r}.", "model_not_found", "model"
        )
    for name, neutral in _UNSUPPORTED.items():
        if given.get(name) not in (None, neutral):
            raise Refusal(400, f"{name} is not supported here; leave it out.", "unsupported_parameter", name)
    stop = given.get("stop") or []
    stops = [stop] if isinstance(stop, str) else stop
    if not isinstance(stops, list) or len(stops) > 4 or not all(isinstance(each, str) and each for each in stops):
        raise Refusal(
            400, "stop must be a string or a list of at most four strings, none of them empty.", "invalid_value", "stop"
        )
    temperature = _number(given, "temperature", 1.0, 0.0, 2.0)
    seed = _number(given, "seed", 0, 0, math.inf, whole=True)
    max_tokens = _number(given, "max_tokens", 16, 1, math.inf, whole=True)
    stream = given.get("stream", False)
    if not isinstance(stream, bool):
        raise Refusal(400, f"stream is {stream!r}; it must be true or false.", "invalid_value", "stream")
    return Asked(_prompt(given.get("prompt")), int(max_tokens), tuple(stops), Sampling(temperature, int(seed)), stream)


def _number(
    given: Mapping[str, object], name: str, default: float, least: float, most: float, whole: bool = False
) -> float:
    value = given.get(name)
    if value is None:
        return default
    if (
        not isinstance(value, (int, float))
        or isinstance(value, bool)
        or not abs(value) < 2.0**63
        or not least <= value <= most
        or (whole and not float(value).is_integer())
    ):
        kind = "a whole number" if whole else "a number"
        top = "" if most == math.inf else f" and at most {most:g}"
        raise Refusal(400, f"{name} is {value!r}; it must be {kind}, at least {least:g}{top}.", "invalid_value", name)
    return value


def _prompt(given: object) -> tuple[int, ...]:
    known = len(text.vocabulary())
    if isinstance(given, str) and given:
        try:
            return tuple(text.encode(given).tolist())
        except ValueError as error:
            raise Refusal(400, str(error), "unknown_character", "prompt") from None
    if isinstance(given, list) and given and all(type(each) is int and 0 <= each < known for each in given):
        return tuple(given)
    wanted = f"a string, or a list of tokens from 0 to {known - 1}; neither may be empty"
    raise Refusal(400, f"prompt must be {wanted}.", "invalid_value", "prompt")


@dataclass
class Reply:
    """A request that was accepted, until its response is complete."""

    number: int
    asked: Asked
    generation: Generation
    arrived: float
    progress: asyncio.Event = field(default_factory=asyncio.Event)  # set when there are new tokens
    first: float = math.nan
    last: float = math.nan
    sent: int = 0  # characters

    @property
    def finished(self) -> bool:
        """Whether no more tokens come."""
        return self.generation.state == FINISHED

    def news(self) -> str:
        """The text that can be sent now: not what may yet turn out to be the beginning of a stop."""
        said = "".join(text.vocabulary()[token] for token in self.generation.reply)
        end = len(said)
        if self.generation.reason == "stop":
            end -= max(len(stop) for stop in self.asked.stops if said.endswith(stop))
        elif not self.finished:
            held = (n for stop in self.asked.stops for n in range(1, len(stop)) if said.endswith(stop[:n]))
            end -= max(held, default=0)
        piece, self.sent = said[self.sent : end], max(self.sent, end)
        return piece
