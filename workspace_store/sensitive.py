"""Secrets and personal numbers in what is about to be kept in memory: where they stand, and what they are.

Numbers count only where their check digits do, so that a door code or an order number is none. Linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from workspace_store import secret_shapes, texts

REST_OF_A_SECRET = re.compile(r"[^\s\"'`<>]*")
PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)", re.DOTALL)
# What people write: "my password is …", "PIN: 1234", "Passwort = …".
SAID = re.compile(
    r"\b(?:pass(?:word|phrase|code|wort)|kennwort|mot de passe|contrase[nñ]a|api[ _-]?key|access[ _-]?(?:key|token)"
    r"|auth[ _-]?token|client[ _-]?secret|secret[ _-]?key|private[ _-]?key|recovery (?:code|phrase)|seed phrase"
    r"|cvv|cvc|pin(?:[ -]?code)?)\b[^\S\n]{0,3}(?:(?:for|of|to|für)(?:[^\S\n]+[\w.@'’-]{1,40}){1,4}[^\S\n]+)?"
    r"(?:is|was|ist|war|est|es|=|:)[^\S\n]{0,3}[\"'`“]?(?P<value>[^\s\"'`”]+)",
    re.IGNORECASE,
)
_NO_VALUES = """
a an the in on at not now set stored kept changed wrong right correct required needed empty missing unknown lost expired
old new here there what which where invalid valid safe nicht im in der die das gesetzt falsch
"""
NO_VALUES = frozenset(_NO_VALUES.split())
DIGITS = re.compile(r"(?<![\w.+-])\d(?:[ -]?\d){8,18}(?![\w-]|\.\d)")
IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?:[ ]?[A-Z0-9]){11,30}\b")
US_SOCIAL_SECURITY = re.compile(r"(?<![\w-])(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])")
UK_INSURANCE = re.compile(
    r"\b(?!BG|GB|NK|KN|TN|NT|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]\b"
)
SPANISH_ID = re.compile(r"\b[XYZ\d]\d{7}[ -]?[A-HJ-NP-TV-Z]\b")
ITALIAN_CODE = re.compile(r"\b[A-Z]{6}\d{2}[A-EHLMPR-T]\d{2}[A-Z]\d{3}[A-Z]\b")
FRENCH_NUMBER = re.compile(r"\b[12] ?\d{2} ?(?:0[1-9]|1[0-2]) ?(?:\d{2}|2[AB]) ?\d{3} ?\d{3} ?\d{2}\b")
PASSPORT = re.compile(r"\bP[A-Z<][A-Z<]{3}[A-Z<]{5,39}\s+[A-Z0-9<]{9}\d[A-Z<]{3}\d{7}[MFX<]\d{7}[A-Z0-9<]{14,16}")


Checked = tuple[re.Pattern[str], str, Callable[[str], bool]]
"""What a number looks like, what it is, and whether one is it."""


@dataclass(frozen=True)
class Finding:
    """``what`` it is, in a person's words; ``start`` and ``end`` in the text."""

    what: str
    start: int
    end: int


def find(text: str) -> list[Finding]:
    """Everything that must not be kept, in order; none overlaps another."""
    found = sorted(_all(text), key=lambda one: (one.start, -one.end))
    kept: list[Finding] = []
    for one in found:
        if not kept or one.start >= kept[-1].end:
            kept.append(one)
        elif one.end > kept[-1].end:
            kept[-1] = Finding(kept[-1].what, kept[-1].start, one.end)
    return kept


def redacted(text: str) -> str:
    """The text with each of them replaced by what it is."""
    out, at = [], 0
    for one in find(text):
        out += [text[at : one.start], texts.withheld(one.what)]
        at = one.end
    return "".join([*out, text[at:]]) if out else text


def _all(text: str) -> Iterator[Finding]:
    for match in PRIVATE_KEY.finditer(text):
        yield Finding(texts.PRIVATE_KEY, match.start(), match.end())
    for match in secret_shapes.values(text):
        yield _secret(text, match.start(), match.end(), texts.SECRET)
    for match in secret_shapes.ASSIGNED.finditer(text):
        if secret_shapes.is_secret_name(match[1]):
            yield _secret(text, match.end(1) + 1, match.end(), texts.SECRET)
    for match in secret_shapes.OPTION.finditer(text):
        yield _secret(text, match.end() - 1, match.end(), texts.SECRET)
    for match in SAID.finditer(text):
        if match["value"].strip(".,;:!?").lower() not in NO_VALUES:
            yield Finding(texts.PASSWORD, match.start("value"), match.end("value"))
    digits = sum(map(str.isdigit, text))
    yield from _numbers(text, CHECKED if digits >= FEWEST_DIGITS else CHECKED_LETTERS if digits else ())


def _secret(text: str, start: int, end: int, what: str) -> Finding:
    rest = REST_OF_A_SECRET.match(text, end)
    return Finding(what, start, rest.end() if rest else end)


def _numbers(text: str, checked: Sequence[Checked]) -> Iterator[Finding]:
    for pattern, what, is_one in checked:
        for match in pattern.finditer(text):
            if is_one(re.sub(r"[\s-]", "", match[0])):
                yield Finding(what, match.start(), match.end())


def _is_card(digits: str) -> bool:
    """ISO/IEC 7812: the number ranges of issuers that banks use, and Luhn's check digit."""
    return any(re.fullmatch(issued, digits) for issued in ISSUED) and len(set(digits)) > 1 and luhn(digits)


ISSUED = (
    r"4\d{12}(?:\d{3}){0,2}", r"5[1-5]\d{14}", r"2[2-7]\d{14}", r"3[47]\d{13}", r"3[0689]\d{12}", r"35\d{14}",
    r"6\d{15,18}", r"5[06-8]\d{10,17}",
)  # fmt: skip


def luhn(digits: str) -> bool:
    doubled = [sum(divmod(2 * int(d), 10)) if place % 2 else int(d) for place, d in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0


def _is_iban(code: str) -> bool:
    """ISO 13616: the remainder by 97 is 1."""
    return 15 <= len(code) <= 34 and int("".join(str(int(c, 36)) for c in code[4:] + code[:4])) % 97 == 1


def _is_german_tax_id(digits: str) -> bool:
    """Eleven digits, one of the first ten repeated, and ISO 7064's MOD 11,10 check digit."""
    if len(digits) != 11 or digits[0] == "0" or len(set(digits[:10])) not in (8, 9):
        return False
    product = 10
    for digit in digits[:10]:
        total = (int(digit) + product) % 10 or 10
        product = total * 2 % 11
    return (11 - product) % 10 == int(digits[10])


def _is_aadhaar(digits: str) -> bool:
    """Twelve digits with Verhoeff's check digit, of India."""
    if len(digits) != 12 or digits[0] in "01" or len(set(digits)) < 3:
        return False
    check = 0
    for place, digit in enumerate(reversed(digits)):
        check = _times(check, _permuted(place, int(digit)))
    return check == 0


def _times(a: int, b: int) -> int:
    """Multiplication in the dihedral group of order ten."""
    if a < 5:
        return (a + b) % 5 if b < 5 else (a + b - 5) % 5 + 5
    return (a - 5 - b) % 5 + 5 if b < 5 else (a - b) % 5


def _permuted(place: int, digit: int) -> int:
    for _ in range(place % 8):
        digit = (1, 5, 7, 6, 2, 8, 3, 0, 9, 4)[digit]
    return digit


def _is_spanish_id(code: str) -> bool:
    number = int(str("XYZ".index(code[0])) + code[1:-1]) if code[0] in "XYZ" else int(code[:-1])
    return "TRWAGMYFPDXBNJZSQVHLCKE"[number % 23] == code[-1]


def _is_french_number(code: str) -> bool:
    number = code[:-2].replace("2A", "19").replace("2B", "18")
    return 97 - int(number) % 97 == int(code[-2:])


def _always(code: str) -> bool:
    return True


CHECKED_LETTERS: tuple[Checked, ...] = ((IBAN, texts.BANK_ACCOUNT, _is_iban),)
"""Numbers that may be nearly all letters."""
FEWEST_DIGITS = 6
"""Of any other."""
CHECKED: tuple[Checked, ...] = (
    (DIGITS, texts.CARD_NUMBER, _is_card),
    *CHECKED_LETTERS,
    (US_SOCIAL_SECURITY, texts.NATIONAL_ID, _always),
    (UK_INSURANCE, texts.NATIONAL_ID, _always),
    (SPANISH_ID, texts.NATIONAL_ID, _is_spanish_id),
    (ITALIAN_CODE, texts.NATIONAL_ID, _always),
    (FRENCH_NUMBER, texts.NATIONAL_ID, _is_french_number),
    (DIGITS, texts.NATIONAL_ID, _is_german_tax_id),
    (DIGITS, texts.NATIONAL_ID, _is_aadhaar),
    (PASSPORT, texts.NATIONAL_ID, _always),
)
