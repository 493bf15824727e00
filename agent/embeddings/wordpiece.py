"""BERT's tokens: words without case and accents, in the longest pieces that the vocabulary has."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping

UNKNOWN, FIRST, LAST = "[UNK]", "[CLS]", "[SEP]"
LONGEST_WORD = 100
CHINESE = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0xF900, 0xFAFF), (0x20000, 0x2FA1F))


class WordPiece:
    """``vocabulary``: piece → number; pieces that continue a word begin with ``##``."""

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self._numbers = vocabulary

    def encode(self, text: str, most: int) -> list[int]:
        """The numbers of at most ``most`` tokens, the first and the last one included."""
        numbers = [self._numbers[FIRST]]
        for word in _words(text):
            numbers += self._pieces(word)
            if len(numbers) >= most - 1:
                break
        return [*numbers[: most - 1], self._numbers[LAST]]

    def _pieces(self, word: str) -> list[int]:
        if len(word) > LONGEST_WORD:
            return [self._numbers[UNKNOWN]]
        found, start = list[int](), 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = word[start:end] if start == 0 else f"##{word[start:end]}"
                if piece in self._numbers:
                    found.append(self._numbers[piece])
                    start = end
                    break
            else:
                return [self._numbers[UNKNOWN]]
        return found


def _words(text: str) -> Iterator[str]:
    word = list[str]()
    for character in _normal(text):
        if character.isspace():
            if word:
                yield "".join(word)
                word.clear()
        elif _is_punctuation(character) or _is_chinese(character):
            if word:
                yield "".join(word)
                word.clear()
            yield character
        else:
            word.append(character)
    if word:
        yield "".join(word)


def _normal(text: str) -> str:
    kept = (" " if c.isspace() else c for c in text if c not in "\x00\ufffd")
    clean = "".join(c for c in kept if c == " " or not unicodedata.category(c).startswith("C"))
    decomposed = unicodedata.normalize("NFD", clean)
    return "".join(c for c in decomposed if unicodedata.category(c) != "Mn").lower()


def _is_punctuation(character: str) -> bool:
    """As BERT has it: all that is no letter or digit in ASCII, and what Unicode calls punctuation."""
    if character.isascii():
        return not character.isalnum()
    return unicodedata.category(character).startswith("P")


def _is_chinese(character: str) -> bool:
    return any(first <= ord(character) <= last for first, last in CHINESE)
