"""Tables exported by an LMS or a spreadsheet, in any encoding, with any separator, and with headers in several
languages.
"""

import csv
import io
import re
import warnings
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from pathlib import Path

from course_grader.classroom.encodings import text_of
from course_lib.messages import Trouble

LINE = "\0line"  # key of a row's line in the file
_CELL = 16_000_000  # characters of one cell: Moodle's worksheet contains whole comments with pictures
_LANGUAGES = (
    "de",
    "fr",
    "es",
    "it",
    "pt",
    "nl",
    "pl",
    "cs",
    "ru",
    "uk",
    "sv",
    "da",
    "tr",
    "hu",
)  # languages whose month names are understood
_WORKBOOKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # .xlsx, .xls
_EXCELS = "sep="  # with the mark behind it, in a line of its own
_AS_CSV = "export it again as CSV (comma separated, UTF-8), not as a workbook"

# Moodle writes the header in the exporting user's language, as do people. For other languages, the error names the
# columns to rename.
_HEADERS: Mapping[str, str] = {
    "first name": "vorname|prénom|nombre|nome|nome próprio|voornaam|imię|imiona|křestní jméno|jméno|имя|förnamn|"
    "fornavn|ad|adı|keresztnév|utónév|ім'я|名|名字|이름",
    "last name": "nachname|familienname|nom|nom de famille|apellido(s)|apellidos|apellido|cognome|apelido|sobrenome|"
    "achternaam|nazwisko|příjmení|фамилия|efternamn|efternavn|etternavn|soyad|soyadı|vezetéknév|прізвище|姓|姓氏|성",
    "full name": "vollständiger name|nom complet|nombre completo|nome completo|nome / cognome|volledige "
    "naam|naam|pełna nazwa|imię i nazwisko|celé jméno|полное имя|фио|fullständigt namn|fulde navn|tam "
    "adı|teljes név|全名|姓名|성명|氏名",
    "email address": "e-mail-adresse|e-mail address|adresse de courriel|adresse e-mail|courriel|dirección de "
    "correo|dirección email|correo electrónico|indirizzo email|indirizzo e-mail|endereço de "
    "e-mail|endereço de email|correio eletrónico|e-mailadres|adres e-mail|adres email|e-mailová "
    "adresa|адрес электронной почты|электронная "
    "почта|e-postadress|e-postadresse|mailadresse|e-mailadresse|e-posta adresi|e-posta|e-mail "
    "cím|e-mail-cím|електронна пошта|电子邮件地址|电子邮件|email地址|邮箱|メールアドレス|이메일 주소|이메일",
    "id number": "id-nummer|numéro d'identification|número de id|codice identificativo|número de "
    "identificação|idnummer|numer id|identifikační číslo|индивидуальный номер|идентификационный номер|id "
    "numarası|kimlik numarası|azonosító szám|id номер|id号|id编号|学号|學號|idナンバー|식별번호|학번|matrikelnummer",
    "username": "anmeldename|benutzername|nom d'utilisateur|nombre de usuario|nome de utilizador|nome de usuário|nome "
    "utente|gebruikersnaam|nazwa użytkownika|uživatelské "
    "jméno|логин|användarnamn|brugernavn|brukernavn|kullanıcı adı|felhasználónév|логін|用户名|ユーザ名|사용자 아이디",
    "groups": "gruppen|groupes|grupos|gruppi|groepen|grupy|skupiny|группы|grupper|gruplar|csoportok|групи|"
    "小组|グループ|모둠",
    "role": "roles|rolle|rollen|rôle|rôles|rol|ruolo|ruoli|função|papel|papéis|rola|role(s)|роль|роли|"
    "roll|角色|ロール|역할",
    "identifier": "identifiant|identificador|identificatore|identificatie|identyfikator|identifikátor|"
    "идентификатор|标识符|識別子",
    "last modified (submission)": "zuletzt geändert (abgabe)|dernière modification (travail remis)|última "
    "modificación (entrega)|ultima modifica (consegna)|última modificação (trabalho "
    "enviado)|última modificação (envio)|laatst gewijzigd (inzending)|ostatnia "
    "modyfikacja (przesłane zadanie)|poslední změna (odevzdané řešení)|последнее "
    "изменение (ответ)",
}
_IN_ENGLISH: Mapping[str, str] = {name: ours for ours, names in _HEADERS.items() for name in names.split("|")}


def read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file by header, in lower-case English; Trouble if it is not a table."""
    lines, mark, above = _text(path).splitlines(keepends=True), "", 0
    while lines and (not re.search(r"\w", lines[0]) or lines[0].startswith(_EXCELS)):
        if lines[0].startswith(_EXCELS):
            mark = lines[0][4]
        del lines[0]
        above += 1
    if not lines:
        return []
    csv.field_size_limit(_CELL)
    table = csv.reader(io.StringIO("".join(lines), newline=""), delimiter=mark or _mark(lines[0]), strict=True)
    try:
        head, *rows = [[*map(str.strip, row), str(above + table.line_num)] for row in table]
    except csv.Error as error:
        raise Trouble(
            f"{path.name}, near line {above + table.line_num}: {error}.",
            "look at the quotation marks there; " + _AS_CSV,
        ) from error
    names = _english(head[:-1])
    return [_row(names, row, number, path.name) for *row, number in rows if any(row)]


def _row(names: list[str], cells: list[str], number: str, file: str) -> dict[str, str]:
    """A row by column; of two columns with one meaning, the first that is not empty counts."""
    if any(cells[len(names) :]):
        raise Trouble(
            f"{file}, line {number} has {len(cells)} cells where the header has {len(names)}.",
            "put quotation marks around cells that contain the separator; " + _AS_CSV,
        )
    row = {LINE: number}
    for name, cell in zip(names, [*cells, *[""] * len(names)], strict=False):
        row[name] = row.get(name) or cell
    return row


def _text(path: Path) -> str:
    """A file's text, in any encoding that is certain."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Trouble(f"{path} cannot be read ({error.strerror}).", "give the path of a CSV file") from error
    if data.startswith(_WORKBOOKS):
        raise Trouble(f"{path} is a workbook or an archive, not a CSV file.", _AS_CSV)
    text = text_of(data, path.name)
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
    if "last name" not in names:  # "Nome" beside no other column of names is the whole name
        names = [
            "full name" if said in ("nome", "name", "naam") else name for said, name in zip(low, names, strict=True)
        ]
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
    found: dict[str, str] = {}
    for language in (*_LANGUAGES, "en"):
        months = Locale(language).months
        found |= {
            name.rstrip(".").lower(): english[number]
            for width in ("abbreviated", "wide")
            for number, name in months["format"][width].items()
        }
        found |= {name.rstrip(".").lower(): english[number] for number, name in months["stand-alone"]["wide"].items()}
    return found
