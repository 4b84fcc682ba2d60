"""The flags of `./course run serve`, and the requests that they plan."""

import argparse
import math
from collections.abc import Sequence

import torch

from course_lib.messages import Trouble, count_text
from course_runs import serve_model
from course_runs.serving import load
from course_runs.serving.engine import Limits

ABOUT = """\
A small server with continuous batching and a paged KV cache, and the load to try it with.

Without --load it serves until Ctrl-C. With --load, clients in a process of their own send requests at each rate; the
run first measures the cost of an iteration, predicts the latencies of each rate from it, and then measures them.
"""
EXAMPLES = """\
examples:
  course run serve                            serve the story model on port 8000 until Ctrl-C
  course run serve --load auto                six rates up to overload: predicted beside measured
  course run serve --load 5,10,20 --requests 300 --out work/evidence
  course run serve --load 20 --requests 1000 --disconnect 0.3 --verify     clients that hang up; every reply checked
  course run serve --load auto --pages 48     few pages: what a small KV cache costs
  course run serve --load auto --no-prefix-sharing

  curl http://127.0.0.1:8000/v1/completions -d '{"model": "story", "prompt": "Ada has ", "max_tokens": 60}'
  curl http://127.0.0.1:8000/metrics
"""


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says; Trouble where it cannot be."""
    parser = argparse.ArgumentParser(
        prog="course run serve",
        description=ABOUT,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--model", default="story", help=f"{', '.join(serve_model.NAMES)} (default: story; the others are not trained)")
    add("--device", default="cpu", help="cpu or cuda (default: cpu)")
    add("--port", type=int, default=8000, help="on 127.0.0.1; 0: a free one (default: 8000, with --load a free one)")
    engine = parser.add_argument_group("engine")
    engine.add_argument("--pages", type=int, default=128, help="pages of the KV cache (default: 128)")
    engine.add_argument("--page-size", type=int, default=16, help="tokens of a page (default: 16)")
    engine.add_argument("--max-batch", type=int, default=16, help="sequences that run together (default: 16)")
    engine.add_argument("--budget", type=int, default=64, help="tokens of an iteration (default: 64)")
    engine.add_argument(
        "--queue", type=int, default=32, help="requests that may wait; more get status 429 (default: 32)"
    )
    engine.add_argument("--no-prefix-sharing", action="store_true", help="compute each prompt from its first token")
    traffic = parser.add_argument_group("load")
    traffic.add_argument(
        "--load", default="", help="requests per second, several with commas; auto: shares of the capacity"
    )
    traffic.add_argument("--requests", type=int, default=150, help="requests at each rate (default: 150)")
    traffic.add_argument("--prompt", default="16-96", help="tokens of a prompt's own part (default: 16-96)")
    traffic.add_argument("--output", default="8-48", help="tokens of a reply (default: 8-48)")
    traffic.add_argument("--groups", type=int, default=4, help="prefixes that prompts share; 0: none (default: 4)")
    traffic.add_argument("--shared", type=int, default=32, help="tokens of a shared prefix (default: 32)")
    traffic.add_argument("--disconnect", type=float, default=0.0, help="fraction of clients that hang up (default: 0)")
    traffic.add_argument(
        "--verify", action="store_true", help="compare each reply with that of the model without a cache"
    )
    traffic.add_argument("--seed", type=int, default=0, help="of arrivals, prompts and lengths (default: 0)")
    ending = parser.add_argument_group("running")
    ending.add_argument("--every", type=float, default=2.0, help="s between live lines (default: 2)")
    ending.add_argument("--grace", type=float, default=30.0, help="s for accepted requests after Ctrl-C (default: 30)")
    ending.add_argument("--seconds", type=float, default=math.inf, help="end after so long (default: Ctrl-C ends it)")
    ending.add_argument("--out", default="", help="folder of the evidence file (default: none is written)")
    ending.add_argument("--name", default="", help="name of the evidence file")
    given = parser.parse_args(argv)
    given.rates = _rates(given.load)
    given.lengths = {name: _range(name, getattr(given, name)) for name in ("prompt", "output")}
    if given.device not in ("cpu", "cuda") or (given.device == "cuda" and not torch.cuda.is_available()):
        raise Trouble(f"There is no device {given.device!r} here.", "--device cpu")
    if not 0 <= given.port < 2**16:
        raise Trouble(f"--port is {given.port}.", "give 0 to 65535; 0 takes a free one")
    for name in ("every", "grace", "seconds"):
        if not getattr(given, name) > 0:
            raise Trouble(f"--{name} is {getattr(given, name):g} s.", "give more than 0")
    try:
        given.limits = Limits(
            context=serve_model.CONTEXT,
            pages=given.pages,
            page_size=given.page_size,
            max_batch=given.max_batch,
            budget=given.budget,
            queue=given.queue,
            share_prefixes=not given.no_prefix_sharing,
        )
        plan(given, 1.0, 0)
    except ValueError as wrong:
        raise Trouble(str(wrong).rstrip("."), "course run serve --help lists the flags") from None
    longest = given.shared * bool(given.groups) + given.lengths["prompt"][1] + given.lengths["output"][1]
    room = min(serve_model.CONTEXT, given.pages * given.page_size)
    if given.rates and longest > room:
        raise Trouble(
            f"The longest request has {count_text(longest, 'token')}: shared prefix, prompt and reply. The context "
            f"and all pages together hold {room}.",
            "lower --shared, --prompt or --output, or raise --pages",
        )
    return given


def _rates(words: str) -> tuple[float, ...]:
    """Requests per second, in ascending order; NaN stands for auto."""
    if words == "auto":
        return (math.nan,)
    try:
        rates = tuple(float(word) for word in words.split(",") if words)
    except ValueError:
        raise Trouble(f"--load is {words!r}.", "give requests per second such as 5,10,20, or auto") from None
    if wrong := [rate for rate in rates if not 0 < rate < math.inf]:
        raise Trouble(f"--load has {count_text(wrong[0], 'request')} per second.", "give rates above 0")
    return tuple(sorted(rates))


def _range(name: str, words: str) -> tuple[int, int]:
    try:
        first, last = (int(word) for word in (words if "-" in words else f"{words}-{words}").split("-"))
    except ValueError:
        raise Trouble(f"--{name} is {words!r}.", "give tokens such as 16-96, or one number") from None
    return first, last


def plan(given: argparse.Namespace, rate: float, number: int, count: int | None = None) -> list[load.Planned]:
    """The requests of the `number`-th rate; each rate has prefixes of its own, so that none are in the cache before."""
    return load.plan(
        rate,
        given.requests if count is None else count,
        1000 * given.seed + number,
        **given.lengths,
        groups=given.groups,
        shared=given.shared,
        disconnect=given.disconnect,
    )
