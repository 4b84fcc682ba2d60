"""What a submission may hold to attack whoever looks at it in a browser: for the pages of feedback and for formgrader.

Each piece tries to run `boom()`, which is nothing that exists: a page that runs any of them says so in its console, in
a dialog, in its title, or by asking the network for something.
"""

import base64

from course_grader.notebooks import Cell

OUTSIDE = (
    "http://127.0.0.1:9/"  # the discard port: nothing answers, a request is seen by the browser's driver all the same
)
RUN = "document.title='boom';alert('boom')"
SVG = f"<svg xmlns=%22http://www.w3.org/2000/svg%22 onload=%22{RUN}%22/>"

MARKDOWN = (
    f"<script>{RUN}</script>",
    f'<img src=x onerror="{RUN}">',
    f"![a]({OUTSIDE}pixel.png) <img src='{OUTSIDE}pixel2.png' srcset='{OUTSIDE}pixel3.png 2x'>",
    f'<svg onload="{RUN}"><script>{RUN}</script><a xlink:href="javascript:{RUN}"><text>x</text></a></svg>',
    f'<svg><animate onbegin="{RUN}" attributeName=x dur=1s></animate><use href="data:image/svg+xml,<svg '
    f'onload={RUN}>"/></svg>',
    f"[link](javascript:{RUN}) [link](JaVaScRiPt:{RUN}) [link](data:text/html,<script>{RUN}</script>) "
    f"[link](vbscript:boom)",
    f'<a href="java\tscript:{RUN}">x</a> <a href="&#106;avascript:{RUN}">x</a> <a href=" \x01javascript:{RUN}">x</a>',
    f'<iframe src="{OUTSIDE}frame" srcdoc="<script>parent.{RUN}</script>"></iframe><object '
    f'data="{OUTSIDE}o"></object><embed src="{OUTSIDE}e">',
    f'<meta http-equiv=refresh content="0;url={OUTSIDE}refresh"><base href="{OUTSIDE}"><link rel=stylesheet '
    f'href="{OUTSIDE}s.css">',
    f"<style>@import url({OUTSIDE}i.css); body{{background:url({OUTSIDE}bg.png)}} .score{{display:none}}</style>",
    f'<p style="background:url({OUTSIDE}p.png);position:fixed;inset:0">over everything</p>',
    f'<form action="{OUTSIDE}form"><input autofocus onfocus="{RUN}"><button '
    f'formaction="javascript:{RUN}">press</button></form>',
    f'<video poster="{OUTSIDE}v.png" src=x onerror="{RUN}"></video><audio src="{OUTSIDE}a" onerror="{RUN}" '
    f"autoplay></audio>",
    f'<details open ontoggle="{RUN}"><summary>x</summary>y</details><body onload="{RUN}"><marquee '
    f'onstart="{RUN}">x</marquee>',
    f'<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror={RUN}&gt;">',
    f'<noscript><p title="</noscript><img src=x onerror={RUN}>">',
    f"<template><script>{RUN}</script></template><xmp><img src=x onerror={RUN}></xmp><textarea><img src=x "
    f"onerror={RUN}></textarea>",
    f"$\\href{{javascript:{RUN}}}{{x}}$ "
    f"$$\\require{{html}}\\style{{background:url({OUTSIDE}m.png)}}{{y}}\\cssId{{z}}{{\\class{{score}}{{w}}}}$$",
    f"```html\n<script>{RUN}</script>\n```\n\n`<img src=x onerror={RUN}>`\n\n```mermaid\nclick A "
    f'"javascript:{RUN}"\n```',
    f"</div></section></main><h1>100 of 100</h1><script>{RUN}</script>",
    f"<!--><img src=x onerror={RUN}>--> <![CDATA[<img src=x onerror={RUN}>]]> <?xml <img src=x onerror={RUN}> ?>",
    f'<a id="boom" name="all" ping="{OUTSIDE}ping" target=_blank href="https://example.org">x</a><area '
    f'href="javascript:{RUN}">',
    f'<img src="data:image/svg+xml;base64,{base64.b64encode(SVG.encode()).decode()}">',
    f"{{% raw %}}{{{{ 7*7 }}}}{{% endraw %}} {{{{ resources }}}} <% {RUN} %>",
    "\u202egnol\u202c \x1b]8;;http://x\x07link\x1b]8;;\x07 \x1b[31mred \x00 \ud800",
)

_SVG = (
    f"<svg xmlns='http://www.w3.org/2000/svg' onload=\"{RUN}\"><script>{RUN}</script><image "
    f"href='{OUTSIDE}i.svg'/></svg>"
)

OUTPUTS: tuple[dict[str, object], ...] = (
    {
        "output_type": "display_data",
        "metadata": {},
        "data": {"text/html": f'<b>kept</b><script>{RUN}</script><img src=x onerror="{RUN}">'},
    },
    {
        "output_type": "display_data",
        "metadata": {},
        "data": {"application/javascript": RUN, "text/plain": "<script>boom()</script>"},
    },
    {"output_type": "display_data", "metadata": {}, "data": {"image/svg+xml": _SVG}},
    {"output_type": "display_data", "metadata": {}, "data": {"text/markdown": f"<script>{RUN}</script>"}},
    {"output_type": "display_data", "metadata": {}, "data": {"text/latex": f"$\\href{{javascript:{RUN}}}{{x}}$"}},
    {"output_type": "display_data", "metadata": {}, "data": {"image/png": f'"><script>{RUN}</script>'}},
    {"output_type": "display_data", "metadata": {}, "data": {"text/vnd.mermaid": f'click A "javascript:{RUN}"'}},
    {
        "output_type": "display_data",
        "metadata": {},
        "data": {"application/vnd.jupyter.widget-view+json": {"model_id": "</script>"}},
    },
    {
        "output_type": "execute_result",
        "execution_count": 1,
        "metadata": {},
        "data": {"text/html": [f"<iframe srcdoc='<script>{RUN}</script>'>", "</iframe>"]},
    },
    {"output_type": "stream", "name": "stdout", "text": f"\x1b]8;;javascript:{RUN}\x07<script>{RUN}</script>\x1b[0m"},
    {"output_type": "stream", "name": f'x"><script>{RUN}</script>', "text": "x"},
    {
        "output_type": "error",
        "ename": "<script>",
        "evalue": RUN,
        "traceback": [f"\x1b[31m<script>{RUN}</script>", f'<img src=x onerror="{RUN}">'],
    },
)


def cells() -> list[Cell]:
    """Cells of one's own with all of it: Markdown, raw, and code with outputs and metadata."""
    bad = f'x"><script>{RUN}</script>'
    markdown = [
        {"cell_type": "markdown", "id": f"bad-{n}", "metadata": {}, "source": text} for n, text in enumerate(MARKDOWN)
    ]
    raw = [
        {
            "cell_type": "raw",
            "id": f"raw-{n}",
            "metadata": {"format": "text/html", "raw_mimetype": "text/html"},
            "source": text,
        }
        for n, text in enumerate(MARKDOWN[:4])
    ]
    code = {
        "cell_type": "code",
        "id": "bad-code",
        "execution_count": None,
        "source": f"# </pre><script>{RUN}</script>\n'''<img src=x onerror={RUN}>'''",
        "metadata": {
            "tags": [bad],
            "magics_language": bad,
            "nbgrader": {"grade_id": bad, "solution": True, "grade": False, "points": bad},
        },
        "outputs": list(OUTPUTS),
    }
    return [*markdown, *raw, code]
