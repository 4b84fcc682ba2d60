"""Formulas as MathML, which browsers set without a script: no request, no wait, and screen readers read them."""

import html
import re

# MathML Core keeps one variant only, "normal"; letters of the others have characters of their own.
_LETTERS = {
    "script": {**dict(zip("BEFHILMR", "ℬℰℱℋℐℒℳℛ", strict=True))},
    "double-struck": {**dict(zip("CHNPQRZ", "ℂℍℕℙℚℝℤ", strict=True))},
}
_FIRST = {"script": 0x1D49C, "double-struck": 0x1D538}  # of capital A
_VARIANT = re.compile(r'<mi mathvariant="(script|double-struck)">([A-Z])</mi>')
_BARS = re.compile(r"<mo>(&#x02016;|‖|\|)</mo>")
_CAPITAL_GREEK = re.compile(r"<mi>(&#x003[9A][0-9A-F];)</mi>")


_FENCES = {"lceil": "⌈", "rceil": "⌉", "lfloor": "⌊", "rfloor": "⌋", "lVert": "‖", "rVert": "‖", "vert": "|"}
_FENCE = re.compile(rf">\\({'|'.join(_FENCES)})</mo>")  # after \Big and the like the converter leaves the command

_FUNCTION = re.compile(r'<mo>([a-z]{2,})</mo>(?=(<mo stretchy="false">&#x00028;)?)')  # min, log, tr
_NAME = re.compile(r'(?<!<msub>)(?<!<msup>)<mi>(log|ln|sin|cos|exp)</mi>(?!<mo stretchy="false">&#x00028;)')


def mathml(formula: str, *, display: bool = False) -> str:
    """A TeX formula as a `math` element with its TeX text as annotation."""
    from latex2mathml.converter import convert

    tex = formula.strip()
    made = convert(tex, display="block" if display else "inline")
    made = re.sub(r' alttext="[^"]*"', "", made, count=1)
    made = _FENCE.sub(lambda found: f">{_FENCES[found[1]]}</mo>", made)
    made = _VARIANT.sub(lambda found: f"<mi>{_letter(found[1], found[2])}</mi>", made)
    made = _BARS.sub(r'<mo stretchy="false" form="prefix" lspace="0" rspace="0">\1</mo>', made)
    made = _CAPITAL_GREEK.sub(r'<mi mathvariant="normal">\1</mi>', made)
    made = made.replace("<mo>&#x0002A;</mo>", "<mo>∗</mo>")
    made = re.sub(r"<mo>(/|&#x0002F;)</mo>", '<mo lspace="0" rspace="0">/</mo>', made)
    made = _FUNCTION.sub(
        lambda found: f'<mo lspace="0.1em" rspace="{"0" if found[2] else "0.167em"}">{found[1]}</mo>', made
    )
    made = _NAME.sub(r'<mi>\1</mi><mspace width="0.167em"/>', made)
    body = re.sub(r"^<math[^>]*>|</math>$", "", made)
    shown = ' display="block"' if display else ""
    return (
        f'<math xmlns="http://www.w3.org/1998/Math/MathML"{shown}><semantics>{body}'
        f'<annotation encoding="application/x-tex">{html.escape(tex)}</annotation></semantics></math>'
    )


def _letter(variant: str, letter: str) -> str:
    return _LETTERS[variant].get(letter) or chr(_FIRST[variant] + ord(letter) - ord("A"))
