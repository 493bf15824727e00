"""The reference pages say what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest

from nightporter.reference import PAGES, descriptions
from nightporter.settings import SECTIONS, TOP_LEVEL, Settings

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_up_to_date(name: str) -> None:
    assert (ROOT / "docs/reference" / name).read_text("utf-8") == PAGES[name](), "run `make docs`"


def test_every_setting_is_described_in_one_line() -> None:
    for model, keys in [(Settings, TOP_LEVEL), *((m, tuple(m.model_fields)) for m in SECTIONS.values())]:
        said = descriptions(model)
        for key in keys:
            assert said[key].endswith("."), f"{model.__name__}.{key}"
            assert "\n" not in said[key]
