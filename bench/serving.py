"""`./course bench serving`: predicted throughput and latency against published ones, source by source, and the
simulator's speed."""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict

from course_chapters.ch16 import published, serving_facts
from course_lib.estimate.units import MINUTE
from course_lib.operate import serving

TARGETS = {  # median error, a fraction, on rows that no constant was chosen on; sources that are not listed have none
    ("trtllm-2023", "throughput"): 0.25,
    ("trtllm-2023", "first_token"): 0.35,
    ("trtllm-2025", "throughput"): 0.10,
    ("lmdeploy-2023", "token"): 0.10,
    ("lmdeploy-2023", "throughput"): 0.10,
    ("lmdeploy-2023", "first_token"): 0.35,
    ("mlperf-2024", "throughput"): 0.15,
}
SLOWEST = 100_000  # requests a minute


def simulator_speed(count: int) -> dict[str, float]:
    """Requests per CPU minute of each scheduler: 8B on one H100, 20 requests/s, about 512 + 200 tokens."""
    requests = serving.poisson_requests(count, 20.0, 1, prompt=(512, 256), output=(200, 100))
    replica = serving.Deployment(model="llama3-8b", device="H100 SXM")
    rates = {}
    for scheduler in serving.SCHEDULERS:
        start = time.process_time()
        serving.simulate(requests, replica, scheduler)
        rates[scheduler] = count / (time.process_time() - start) * MINUTE
    return rates


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables, or JSON with `--json`; 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="course bench serving", description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rows", action="store_true", help="every row, measured and predicted")
    parser.add_argument("--requests", type=int, default=20_000, help="requests that time the simulator")
    given = parser.parse_args(arguments)
    found, day = published.errors(), serving_facts.service_day()
    checks, speeds = published.day_checks(day), simulator_speed(given.requests)
    held = {
        (each.source, each.metric): None
        if (goal := TARGETS.get((each.source, each.metric))) is None
        else each.median <= goal
        for each in found
    }
    if given.json:
        sources = [{**asdict(each), "note": each.note, "ok": held[each.source, each.metric]} for each in found]
        print(
            json.dumps(
                {"sources": sources, "day": [asdict(each) for each in checks], "requests_a_minute": speeds}, indent=1
            )
        )
    else:
        _show(found, held, given.rows)
        low, high = published.users_at_once(day)
        print(f"{day.name}, one day:")
        for check in checks:
            print(f"  {check.what:42}{check.printed:>14,.6g}{check.computed:>14,.6g} {check.unit:6}{check.error:+8.1%}")
        print(f"  replies in progress, by Little's law: {low:,.0f} to {high:,.0f}")
        print("simulated requests per CPU minute: " + ", ".join(f"{name} {rate:,.0f}" for name, rate in speeds.items()))
    return int(any(ok is False for ok in held.values()) or min(speeds.values()) < SLOWEST)


def _show(found: Sequence[published.Errors], held: dict[tuple[str, str], bool | None], every: bool) -> None:
    print(f"{'source':18}{'metric':12}{'rows':>6}{'judged':>8}{'median':>9}{'p90':>9}{'bias':>9}  asked")
    for each in found:
        goal = TARGETS.get((each.source, each.metric))
        asked = "" if goal is None else f"{goal:.0%}: {'yes' if held[each.source, each.metric] else 'NO'}"
        print(
            f"{each.source:18}{each.metric:12}{each.rows:6}{each.judged:8}"
            f"{each.median:9.1%}{each.worst:9.1%}{each.bias:+9.1%} "
            f" {asked}"
        )
        for row in serving_facts.serving_rows(each.source) if every else ():
            if row.metric == each.metric:
                said = published.predict(row)
                mark = "fit" if published.chosen_on(row) else ""
                print(
                    f"    {float(row.value):12.5g}{said:12.5g}{said / float(row.value) - 1:+8.0%}  {row.label} {mark}"
                )
    for source in dict.fromkeys(each.source for each in found):
        print(f"  {source}: {published.NOTES[source]}")
