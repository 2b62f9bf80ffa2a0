"""The recipes of the guide, as it prints them."""

from __future__ import annotations

import re

from tests.helpers import REPOSITORY

GUIDE = (REPOSITORY / "docs/guides/loading.md").read_text("utf-8")
RECIPES: dict[str, str] = dict(
    re.findall(r"^<!-- recipe: (\S+) -->\n```python\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
)
