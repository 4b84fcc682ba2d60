"""One server: its devices, the switches that join them, and each device's adapter to other servers."""

from course_chapters.ch03.tiling import boxes
from course_lib.draw import palette, panels, style
from course_lib.draw.style import Picture
from course_lib.estimate import facts
from course_lib.estimate.units import GB, number_text


def server(name: str) -> Picture:
    """One server: its devices, the switches that join them, and each device's adapter to other servers, with rates one
    way."""
    device, count = facts.device(name), int(facts.topology("DGX H100 server").devices("server"))
    figure, axes = panels.sheet(2.75)
    link, network = (f"{number_text(rate / GB)} GB/s" for rate in (device.link_one_way, device.network_one_way))
    title = f"A server of {count} {name.split()[0]}s: two ways for a byte, with rates per GPU in one direction"
    axes.text(0.15, 2.58, title, va="center", **style.font(style.LARGE, bold=True))
    boxes(axes, [(0.15, 0.62, 5.45, 1.72)], palette.EMPTY, palette.GREY, 0.8)
    places = [0.3 + 0.655 * k for k in range(count)]
    hub = (0.3, 1.93, places[-1] + 0.5 - 0.3, 0.3)
    red = palette.color("communication")
    for x in places:
        axes.plot((x + 0.25, x + 0.25), (1.55, hub[1]), color=red, lw=2.6, zorder=1)
        axes.plot((x + 0.25, x + 0.25), (0.35, 1.15), color=red, lw=1.0, zorder=1)
    boxes(axes, [hub], red, layer=2)
    boxes(axes, [(x, 1.15, 0.5, 0.4) for x in places], palette.color("weights"), layer=2)
    boxes(axes, [(x + 0.05, 0.75, 0.4, 0.24) for x in places], red, layer=2)
    axes.plot((places[0] + 0.25, places[-1] + 0.25), (0.35, 0.35), color=red, lw=1.0, zorder=1)
    small, middle = style.SMALL, hub[1] + hub[3] / 2
    axes.text(
        hub[0] + hub[2] / 2,
        middle,
        "NVLink switches",
        ha="center",
        va="center",
        **style.font(small, palette.ink_on(red)),
    )
    for k, x in enumerate(places):
        axes.text(
            x + 0.25,
            1.35,
            f"GPU {k}",
            ha="center",
            va="center",
            **style.font(7.0, palette.ink_on(palette.color("weights"))),
        )
        axes.text(x + 0.25, 0.87, "NIC", ha="center", va="center", **style.font(6.5, palette.ink_on(red)))
    for y, words in (
        (1.74, f"NVLink: {link},\nfor all {count - 1} peers together"),
        (0.87, f"adapter (NIC):\n{network}"),
        (0.35, "to other servers"),
    ):
        axes.text(5.7, y, words, va="center", **style.font(small))
    figure.alt = (
        f"{title}. Every GPU reaches the NVLink switches at {link}, shared by its {count - 1} peers, and other servers "
        f"through its own adapter at {network}."
    )
    return figure
