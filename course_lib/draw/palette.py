"""One color for one thing, from the first chapter to the last: Okabe and Ito's palette, safe for color blindness.

The neutral colors follow the page's theme: `NIGHT` says what each becomes on a dark page. The colors of things stay.
"""

PAPER = "#ffffff"  # the background of every picture
INK = "#1f2328"  # text and axes on paper
SOFT = "#57606a"  # second text: notes, ticks
GRID = "#d8dee4"
EMPTY = "#eef1f4"  # a place where something could be
DARK_WORDS, LIGHT_WORDS = "#1f2329", "#fffffe"  # words on a colored fill, the same in both themes
BEYOND = "#fbeee5"  # vermilion, faint: an area past a limit
PALE = {"compute": "#e3e6ea", "memory": "#cfe3f3", "network": "#f8dcc8"}  # areas where one of the three binds
NIGHT = {  # on JupyterLab's dark page
    PAPER: "#111111",
    INK: "#e6edf3",
    SOFT: "#9ea7b0",
    GRID: "#30363d",
    EMPTY: "#262c33",
    BEYOND: "#2e1a10",
    PALE["compute"]: "#2b3036",
    PALE["memory"]: "#10293d",
    PALE["network"]: "#40210f",
}

ORANGE, SKY, GREEN, YELLOW = "#e69f00", "#56b4e9", "#009e73", "#f0e442"
BLUE, VERMILION, PURPLE, GREY = "#0072b2", "#d55e00", "#cc79a7", "#b3b9c0"
VIOLET = "#7b5ea7"  # the palette has eight colors; backward needs a ninth that is not beside its neighbors
SHADES = (BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW, VIOLET, GREY)  # of several things alike, such as ranks or requests

NIGHT_WORDS = {BLUE: "#5cb3ef", VIOLET: "#a98fd0"}  # words of these colors; areas and lines keep them

COLOR: dict[str, str] = {
    "weights": BLUE,
    "grads": ORANGE,
    "main_grads": "#f5c55c",  # the same thing as grads, once more: its lighter shade
    "master": SKY,
    "moments": GREEN,
    "activations": PURPLE,
    "communication": VERMILION,
    "forward": YELLOW,
    "backward": VIOLET,
    "idle": GREY,
    "temporary": "#8c959f",
}

LABEL: dict[str, str] = {
    "grads": "gradients",
    "main_grads": "main gradients (fp32)",
    "master": "master copy",
    "moments": "Adam's two moments",
}

# Other words for the same things: PyTorch's, the cluster's, and the meter's.
_ALIASES: dict[str, str] = {
    "parameters": "weights",
    "params": "weights",
    "gradients": "grads",
    "optimizer": "moments",
    "optimizer state": "moments",
    "saved by autograd": "activations",
    "held by communication": "communication",
    "send": "communication",
    "recv": "communication",
    "isend": "communication",
    "irecv": "communication",
    "collective": "communication",
    "comm": "communication",
    "wait": "idle",
    "bubble": "idle",
    "reserved, not in use": "idle",
    "compute": "forward",
    "f": "forward",
    "b": "backward",
}


def role(name: str) -> str:
    """The role that a word stands for: "recv" is "communication", "parameters" are "weights"."""
    key = name.strip().lower()
    return key if key in COLOR else _ALIASES.get(key, key)


def color(name: str) -> str:
    """The color of a role or one of its other names; grey for what has no color of its own."""
    return COLOR.get(role(name), COLOR["temporary"])


def label(name: str) -> str:
    """How a role is called in a legend."""
    return LABEL.get(name, name.replace("_", " "))


def ink_on(fill: str) -> str:
    """Dark or white, whichever reads on this fill; black where the softer dark would be too weak."""
    if fill in NIGHT:
        return INK  # both follow the theme
    best = max((DARK_WORDS, LIGHT_WORDS), key=lambda ink: contrast(ink, fill))
    return best if contrast(best, fill) >= 4.5 else "#000000"


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colors, 1 to 21, as the web accessibility guidelines define it."""
    lights = sorted((_luminance(one), _luminance(other)))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def _luminance(hexcode: str) -> float:
    parts = (int(hexcode[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
