"""The text of a table that a spreadsheet wrote, in whatever encoding; a refusal where its letters can be read in two
ways.

Detectors of encodings need longer texts than a list of names: of 46 lists, charset-normalizer 3.5 read 21 wrongly, such
as French names as Czech ones. So the letters of every possible reading are checked word by word, and a file is read
only if one reading alone makes sense.
"""

import codecs
import re
import unicodedata
from collections.abc import Mapping

from course_lib.messages import Trouble

_EAST_ASIAN = {
    "gb18030": "Chinese",
    "big5": "Chinese, traditional",
    "cp949": "Korean",
    "cp932": "Japanese",
    "euc_jp": "Japanese, EUC",
}
_PAGES: Mapping[str, str] = {  # what Windows, DOS and macOS write, by the letters in it
    "cp1252": "Western Europe",
    "cp1250": "Central Europe",
    "cp1251": "Cyrillic",
    "cp1253": "Greek",
    "cp1254": "Turkish",
    "cp1255": "Hebrew",
    "cp1257": "Baltic",
    "koi8_u": "Cyrillic, KOI8",
    "cp866": "Cyrillic, DOS",
    "iso8859_2": "Central Europe, ISO",
    "mac_cyrillic": "Cyrillic, Macintosh",
    "mac_roman": "Western Europe, Macintosh",
    "mac_latin2": "Central Europe, Macintosh",
    "cp850": "Western Europe, DOS",
    "cp852": "Central Europe, DOS",
}
_COUNTRIES: Mapping[str, str] = {  # ends of addresses that tell which of several possible readings is meant
    "cp1252": "at be br ch cl co de dk es fi fr ie is it lu mx no nl pt se uk",
    "cp1250": "ba cz hr hu pl ro si sk",
    "cp1254": "tr",
    "cp1257": "ee lt lv",
}
_ALPHABETS = (  # letters beyond a to z, of one language each; the rarest are left out
    *("áčďéěíňóřšťúůýž", "áäčďéíľňóôšťúýž", "ąćęłńóśźż", "áéíóöőúüű", "čćđšž", "ăâîșțşţ", "äöüß", "çğıöşüâîû"),
    *("ąčęėšūž", "āčēģīķļņšūž", "äõöüšž", "àâæçéèêëîïôœùûüÿ", "áéíñóúü", "áâãàçéêíóôõúü", "àçéèíïóòúü", "àèéìîòóù"),
    *("æøåéóò", "åäöéü", "éëïóöüáè", "áéíóúýþæðö", "áéíóú"),
)
_SEPARATOR = re.compile(r"[\x00-@\[-`{-\x7f\s–—«»…·•’]+")
_SIGNS = set("€£§°№©®™¿¡×")  # by themselves they say nothing
_DIGRAPHS = re.compile(r"[sc]z|[crst]h|[dr]z|ck")
_MOST_CONSONANTS = {"LATIN": 3, "CYRILLIC": 5, "GREEK": 3}  # in a row, in a name that has a letter beyond a to z
_MARGIN = 0.08  # share of the words by which the reading that counts is better than any other
_SURNAMES: Mapping[str, str] = {  # first characters of the most frequent ones
    "gb18030": "王李张刘陈杨黄赵吴周徐孙马朱胡郭何高林"
    "罗郑梁谢宋唐许邓冯韩曹曾彭萧蔡潘田董袁于余叶蒋杜苏魏程吕丁沈任姚卢傅钟姜崔谭廖范汪陆",
    "big5": "陳林黃張李王吳劉蔡楊許鄭謝郭洪"
    "曾邱廖賴徐周葉蘇莊呂江何蕭羅高潘簡朱鍾游彭詹胡施沈余盧梁趙顏柯翁魏孫戴范方宋鄧杜傅侯曹薛丁",
    "cp949": "김이박최정강조윤장임한오서신권황안송류전홍유고문양손배백허남심노하곽성차주우구",
    "cp932": "佐鈴高田伊渡山中小加吉松井木林清斎阿森池橋石前藤岡後長村近坂遠青西福太三竹金原",
}
_MOST_RARE = 0.2  # share of East Asian characters that names are seldom written with
_FEW = (
    8  # East Asian characters, or words in an encoding that Windows does not use, below which a reading can be chance
)
_WAY_OUT = "save it as “CSV UTF-8” (in Excel: File → Save As), or convert it: iconv -f {} -t UTF-8 {} > utf8.csv"


def text_of(data: bytes, name: str) -> str:
    """The text of a table; Trouble, with the possible readings, if its encoding is not certain."""
    text = _unicode(data)
    if text is None:
        return _of_a_code_page(data, name)
    if "\ufffd" in text:
        word = next(each for each in re.split(r"[,;\t\n]", text) if "\ufffd" in each)
        raise Trouble(
            f"{name} has lost letters: {word.strip()!r} has “\ufffd” in place of one.",
            "export it again from its source",
        )
    if word := _twice_encoded(text):
        meant = word.encode("cp1252").decode("utf-8")
        raise Trouble(
            f"{name} was encoded twice: {word!r} is probably {meant!r}.", "export it again from its source, as UTF-8"
        )
    return text


def _unicode(data: bytes) -> str | None:
    """The text of a file in UTF-8 or UTF-16, with or without a byte order mark; None for another encoding."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif 3 * data[1::2].count(0) > len(data) // 2:
        encoding = "utf-16-le"
    elif 3 * data[0::2].count(0) > len(data) // 2:
        encoding = "utf-16-be"
    else:
        encoding = "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return None


def _twice_encoded(text: str) -> str:
    """A word whose letters are the bytes of UTF-8 read as Windows-1252, if all words with such letters are; else ""."""
    words = [word for word in re.findall(r"[^\s,;\"]+", text) if not word.isascii()]
    try:
        return words[0] if words and all(word.encode("cp1252").decode("utf-8") for word in words) else ""
    except UnicodeError:
        return ""


def _of_a_code_page(data: bytes, name: str) -> str:
    """The only reading of the bytes that makes sense."""
    readings: dict[str, str] = {}  # text -> encoding
    for encoding in (*_EAST_ASIAN, *_PAGES):
        try:
            readings.setdefault(data.decode(encoding), encoding)
        except UnicodeDecodeError:
            continue
    odd = {text: _share_of_odd_words(text, encoding) for text, encoding in readings.items()}
    ranked = sorted(odd, key=lambda text: odd[text])
    likely = [text for text in ranked if odd[text] <= odd[ranked[0]] + _MARGIN and odd[ranked[0]] <= _MARGIN]
    if len(likely) > 1:
        likely = _of_its_country(likely, readings) or likely
    if len(likely) == 1 and _is_enough(likely[0], readings[likely[0]]):
        return likely[0]
    if not likely:
        raise Trouble(f"{name} is not UTF-8, and its encoding was not recognized.", _WAY_OUT.format("ENCODING", name))
    ways = ", ".join(f"“{_first_difference(text, likely)}” ({_named(readings[text])})" for text in likely[:4])
    raise Trouble(
        f"{name} is not UTF-8, and its letters may be read as {ways}.", _WAY_OUT.format(readings[likely[0]], name)
    )


def _named(encoding: str) -> str:
    return f"{_PAGES.get(encoding) or _EAST_ASIAN[encoding]}, {encoding}"


def _is_enough(text: str, encoding: str) -> bool:
    """Whether a reading has so much in it that it cannot make sense by chance."""
    if encoding in _EAST_ASIAN:
        return sum(ord(letter) > 0x2E80 for letter in text) >= _FEW
    return encoding.startswith("cp125") or len(_words(text)) >= _FEW


def _words(text: str) -> set[str]:
    """The words with letters beyond a to z."""
    return {word for word in _SEPARATOR.split(text) if not word.isascii() and not set(word) <= _SIGNS}


def _of_its_country(likely: list[str], readings: Mapping[str, str]) -> list[str]:
    """The reading that fits the countries of the addresses in the table, where they name one."""
    ends = re.findall(r"@[\w.-]+\.([a-z]{2})\b", likely[0].lower())
    return [
        text
        for text in likely
        if ends and sum(end in _COUNTRIES.get(readings[text], "").split() for end in ends) > len(ends) / 2
    ]


def _first_difference(text: str, likely: list[str]) -> str:
    """The first word that this reading and another one do not share."""
    if len(likely) == 1:
        return next(word for word in re.split(r"[\s,;\"]+", text) if not word.isascii())
    mine, other = (re.split(r"[\s,;\"]+", each) for each in (text, likely[1] if text == likely[0] else likely[0]))
    return next((word for word, theirs in zip(mine, other, strict=False) if word != theirs), mine[0])


# ----------------------------------------------------------------------------------------------- does a word make sense


def _share_of_odd_words(text: str, encoding: str) -> float:
    """The share of the words with letters beyond a to z that no language writes so; 1 if there is no word."""
    words = _words(text)
    if encoding in _EAST_ASIAN:
        letters = [letter for word in words for letter in word]
        if not letters or _MOST_RARE * len(letters) < sum(not _is_common(letter, encoding) for letter in letters):
            return 1.0
        if 5 * sum(word[0] in _SURNAMES["cp932" if encoding == "euc_jp" else encoding] for word in words) < len(words):
            return 1.0  # one language can be read as characters of another, but hardly as its names
    return sum(not _makes_sense(word, encoding) for word in words) / len(words) if words else 1.0


def _makes_sense(word: str, encoding: str) -> bool:
    if not all(unicodedata.category(letter)[0] in "LM" for letter in word):
        return False
    scripts = {unicodedata.name(letter, "").split(" ")[0] for letter in word}
    if encoding in _EAST_ASIAN:
        return scripts <= {"CJK", "HANGUL", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"}
    if len(scripts) != 1 or not (word[1:].islower() or word.isupper() or word.islower() or scripts == {"HEBREW"}):
        return False
    (script,) = scripts
    low = word.lower().replace("\u0307", "")  # of a Turkish İ
    if script == "LATIN":
        beyond = {letter for letter in low if not letter.isascii()}
        return any(beyond <= set(alphabet) for alphabet in _ALPHABETS) and _is_spoken(low, script)
    if script == "GREEK":
        return "ς" not in low[:-1] and not (len(low) > 1 and low.endswith("σ")) and _is_spoken(low, script)
    if script == "HEBREW":
        return all("א" <= letter <= "ת" for letter in word)
    return script == "CYRILLIC" and word[:1].isupper() and _is_spoken(low, script)


def _is_common(letter: str, encoding: str) -> bool:
    """Whether a character is among those that names of its language are mostly written with."""
    try:
        if encoding == "cp949":
            return "가" <= letter <= "힣" and len(letter.encode("euc_kr")) == 2
        if encoding in ("cp932", "euc_jp"):
            return "ぁ" <= letter <= "ー" or (letter >= "一" and letter.encode("cp932") < b"\x98\x73")
        if encoding == "big5":
            return letter.encode("big5") < b"\xc9"
        return b"\xb0" <= letter.encode("gb2312") < b"\xd8"
    except UnicodeEncodeError:
        return False


def _is_spoken(low: str, script: str) -> bool:
    """Whether a word has a vowel, and no long run of consonants around a letter beyond a to z."""
    runs = re.split(r"[aeiouyæøœåıαεηιουωаеёиоуыэюяіїє]+", "".join(map(_unaccented_vowel, _DIGRAPHS.sub("k", low))))
    odd = [run for run in runs if not run.isascii()]
    return len(runs) > 1 and max(map(len, odd), default=0) <= _MOST_CONSONANTS[script]


def _unaccented_vowel(letter: str) -> str:
    base = unicodedata.normalize("NFD", letter)[0]
    return base if base in "aeiouyαεηιουωаеиоу" else letter
