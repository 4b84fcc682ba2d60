"""What several of chapter 15's cards use."""

from collections.abc import Mapping


def words_of(words: Mapping[str, str], ordered: bool = False) -> str:
    rows = enumerate(words.items(), 1)
    return ";\n".join(f'{f"{n}." if ordered else "-"} `"{word}"`: {meaning}' for n, (word, meaning) in rows) + "."
