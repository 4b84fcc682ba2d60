"""A plan as one page that needs no other file and asks no other host: to send to a colleague."""

import html
from collections.abc import Iterable, Mapping, Sequence

from course_app.certificate.page import shell
from course_app.cli.plan import commands
from course_app.parts import parts_of
from course_lib.draw import page as picture
from course_lib.draw.palette import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION, VIOLET, YELLOW
from course_lib.estimate.units import bytes_text, duration_text, percent_text
from course_lib.parallel import planner
from course_lib.parallel.planner import Plan
from course_lib.parallel.planner.advice import CAUSES

FILLS = (BLUE, ORANGE, GREEN, SKY, PURPLE, YELLOW, VIOLET, GREY, VERMILION, "#8c959f", "#f5c55c", "#5a3d2b", "#3b6e5c")
MORE = """
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); gap: 1rem;
  margin: 1.2rem 0; }
.pictures img { width: 100%; height: auto; max-width: 28rem; }
dl { display: grid; grid-template-columns: auto 1fr; gap: .1rem 1rem; margin: .6rem 0; }
summary { cursor: pointer; color: var(--word); }
dt { color: var(--soft); } dd { margin: 0; }
@media (max-width: 40rem) { th, td { padding-right: .45rem; font-size: .82rem; } }
"""


def page(name: str, heading: Sequence[str], plans: Mapping[str, Plan], tokens: float) -> str:
    """The whole page: the conditions, the plans side by side, and each with its parts and its command lines."""
    best = next(iter(plans.values()))
    numbered = {
        f"{place}. {wish[0].upper()}{wish[1:]}": plan for place, (wish, plan) in enumerate(plans.items(), start=1)
    }
    title = f"{name} on {best.cluster.gpus:,} x {best.cluster.name}"
    header = "".join(f"<p>{html.escape(line)}</p>" for line in heading)
    body = f"""<section aria-labelledby="plans"><h2 id="plans">Plans</h2>
{_table(numbered, tokens)}
<div class="pictures">
{picture(_memory(numbered))}
{picture(_time(numbered))}
</div>
</section>
{"".join(_section(place, wish, plan, best) for place, (wish, plan) in enumerate(numbered.items()))}
<section aria-labelledby="how"><h2 id="how">How these numbers come about</h2>
<p>Time and memory are computed, not measured here: a model of the step whose few constants were chosen on
published runs and tried on others. <code>course bench planner</code> shows its errors on each source. Memory keeps a
twentieth of the device free. Measure a hundred steps before you rent for a month.</p>
</section>"""
    return shell(title, "plan", header, body, style=MORE)


def _table(plans: Mapping[str, Plan], tokens: float) -> str:
    rows = "".join(
        f'<tr><th scope="row">{html.escape(wish)}</th><td class="number">{duration_text(plan.seconds)}</td>'
        f'<td>{html.escape(planner.cost(plan, tokens))}</td><td class="number">{bytes_text(plan.memory)}</td>'
        f'<td class="number">{percent_text(float(plan.estimate.mfu))}</td></tr>'
        for wish, plan in plans.items()
    )
    narrow = any(plan.job.dtype != "bf16" for plan in plans.values())
    names = ("Plan", "Step", "Run", "Memory", "MFU of the 16-bit peak" if narrow else "MFU")
    head = "".join(f'<th scope="col">{each}</th>' for each in names)
    return f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _colors(names: Iterable[str]) -> dict[str, str]:
    return dict(zip(dict.fromkeys([*names, "the rest"]), FILLS, strict=False))


def _memory(plans: Mapping[str, Plan]):
    held = {wish: planner.memory_parts(plan) for wish, plan in plans.items()}
    room = next(iter(plans.values())).cluster.memory
    limit = f"a device: {bytes_text(room)}"
    colors = _colors(name for parts in held.values() for name in parts)
    return parts_of(held, colors, bytes_text, title="Memory of the fullest device", ceiling=room, limit=limit)


def _time(plans: Mapping[str, Plan]):
    spent = {wish: planner.time_parts(plan) for wish, plan in plans.items()}
    return parts_of(spent, _colors(CAUSES.values()), duration_text, title="Seconds of a step")


def _section(place: int, wish: str, plan: Plan, best: Plan) -> str:
    lines, refused = commands(plan)
    shown = "".join(f"<h3>{name}</h3><pre><code>{html.escape(line)}</code></pre>" for name, line in lines.items())
    shown += "".join(f"<p class='soft'>{name}: not possible. {html.escape(why)}</p>" for name, why in refused.items())
    held = _parts({name: bytes_text(each) for name, each in planner.memory_parts(plan).items()})
    spent = _parts({name: percent_text(each / plan.seconds, 2) for name, each in planner.time_parts(plan).items()})
    return f"""<section aria-labelledby="plan-{place}"><h2 id="plan-{place}">{html.escape(wish)}</h2>
<p>{html.escape(planner.degrees(plan))}</p>
<p>{html.escape(planner.verdict(plan, best))}</p>
<div class="pictures"><div><h3>Memory</h3>{held}</div><div><h3>Time of a step</h3>{spent}</div></div>
<details><summary>Command lines</summary>{shown}</details>
</section>
"""


def _parts(parts: Mapping[str, str]) -> str:
    return f"<dl>{''.join(f'<dt>{html.escape(name)}</dt><dd>{each}</dd>' for name, each in parts.items())}</dl>"
