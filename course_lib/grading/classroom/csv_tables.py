"""Tables exported by an LMS or a spreadsheet, in any encoding, with any separator, and with headers in several
languages.
"""

import codecs
import csv
import io
import re
import warnings
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from pathlib import Path

from course_lib.install import Trouble

_CELL = 16_000_000  # characters of one cell: Moodle's worksheet contains whole comments with pictures
_LANGUAGES = ("de", "fr", "es", "it", "pt", "nl", "pl")  # languages whose month names are understood
_EXCELS = "sep="  # with the mark behind it, in a line of its own
_AS_CSV = "export it again as CSV (comma separated, UTF-8), not as a workbook"

# Moodle writes the header in the exporting user's language. For other languages, the error names the columns to rename.
_IN_ENGLISH: Mapping[str, str] = {
    "vorname": "first name",
    "nachname": "last name",
    "e-mail-adresse": "email address",
    "id-nummer": "id number",
    "anmeldename": "username",
    "gruppen": "groups",
    "vollständiger name": "full name",
    "zuletzt geändert (abgabe)": "last modified (submission)",
    "prénom": "first name",
    "nom": "last name",
    "nom de famille": "last name",
    "adresse de courriel": "email address",
    "adresse e-mail": "email address",
    "numéro d'identification": "id number",
    "nom d'utilisateur": "username",
    "groupes": "groups",
    "nom complet": "full name",
    "identifiant": "identifier",
    "dernière modification (travail remis)": "last modified (submission)",
    "nombre": "first name",
    "apellido(s)": "last name",
    "apellidos": "last name",
    "dirección de correo": "email address",
    "dirección email": "email address",
    "número de id": "id number",
    "nombre de usuario": "username",
    "grupos": "groups",
    "nombre completo": "full name",
    "identificador": "identifier",
    "última modificación (entrega)": "last modified (submission)",
}


def read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file by header, in lower-case English; Trouble if it is not a table."""
    lines, mark = _text(path).splitlines(keepends=True), ""
    while lines and (not re.search(r"\w", lines[0]) or lines[0].startswith(_EXCELS)):
        if lines[0].startswith(_EXCELS):
            mark = lines[0][4]
        del lines[0]
    if not lines:
        return []
    csv.field_size_limit(_CELL)
    table = csv.reader(io.StringIO("".join(lines), newline=""), delimiter=mark or _mark(lines[0]), strict=True)
    try:
        head, *rows = [[cell.strip() for cell in row] for row in table]
    except csv.Error as error:
        raise Trouble(
            f"{path.name}, near line {table.line_num}: {error}.", "look at the quotation marks there; " + _AS_CSV
        ) from error
    names = _english(head)
    return [{**dict.fromkeys(names, ""), **dict(zip(names, row, strict=False))} for row in rows if any(row)]


def _text(path: Path) -> str:
    """A file's text: UTF-8, UTF-16 (Excel's Unicode text), or else Windows-1252."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Trouble(f"{path} cannot be read ({error.strerror}).", "give the path of a CSV file") from error
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("cp1252", errors="replace")
    if "\x00" in text:
        raise Trouble(f"{path} is not a CSV file.", _AS_CSV)
    return text


def _mark(first: str) -> str:
    """The separator: the first one in the header, because names of assignments may contain the others."""
    found = re.search(r"[,;\t]", re.sub(r'"[^"]*"', "", first))
    return found.group() if found else ","


def _english(head: list[str]) -> list[str]:
    """The header in lower case and, where known, in English."""
    low = [re.sub(r"\s+", " ", name).replace("’", "'").strip().lower() for name in head]
    names = [_IN_ENGLISH.get(name, name) for name in low]
    if "vollständiger name" in low:  # in German Moodle's "Identifier" is called "ID", which elsewhere is a person's id
        names = ["identifier" if name == "id" else name for name in names]
    return names


def moment_in(text: str) -> datetime | None:
    """A time from a table, in this machine's time zone if it names none; None for an empty cell or a dash.

    Trouble if it cannot be read, or if day and month cannot be told apart.
    """
    from dateutil import parser

    plain = text.strip()
    if not re.search(r"\w", plain):
        return None
    if (
        (two := re.match(r"(\d{1,2})/(\d{1,2})/\d", plain))
        and max(map(int, two.groups())) <= 12
        and two.group(1) != two.group(2)
    ):
        raise Trouble(
            f"{text!r} can be two days: it does not say which number is the month.", "write times as 2026-10-12 23:59"
        )
    try:
        with warnings.catch_warnings(action="error"):  # a time zone name used in several parts of the world
            made = parser.parse(
                re.sub(r"[^\W\d_]+\.?", _known_word, plain), dayfirst=re.match(r"\d{1,2}\.\d", plain) is not None
            )
    except (ValueError, OverflowError, Warning) as error:
        raise Trouble(
            f"{text!r} cannot be read as a time.",
            "write times as 2026-10-12 23:59, or download the table with Moodle in English",
        ) from error
    return made.astimezone() if made.tzinfo is None else made


def _known_word(word: re.Match[str]) -> str:
    """A word of a date in English; "" for words that only a language needs, such as a weekday or "Uhr"."""
    said = word.group()
    if re.fullmatch(r"[A-Z]{1,5}|[ap]m", said):
        return said
    return _months().get(said.rstrip(".").lower(), "")


@cache
def _months() -> dict[str, str]:
    """The names of months, long and short, with their English ones."""
    from babel import Locale

    english = Locale("en").months["format"]["abbreviated"]
    found = {}
    for language in (*_LANGUAGES, "en"):
        months = Locale(language).months
        found |= {
            name.rstrip(".").lower(): english[number]
            for width in ("abbreviated", "wide")
            for number, name in months["format"][width].items()
        }
        found |= {name.rstrip(".").lower(): english[number] for number, name in months["stand-alone"]["wide"].items()}
    return found
