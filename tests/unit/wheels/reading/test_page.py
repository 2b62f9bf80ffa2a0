"""The page about a bundle: every kernel is on it, and nothing that others named runs in it."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import re
from pathlib import Path

from hatch_cubin.wheels.reading.page import html_page
from hatch_cubin.wheels.reading.report import ReportSection, ReportTable
from tests.cubins import PTX, cubin, facts_of
from tests.helpers import bundle, made


class Page(html.parser.HTMLParser):
    """What a browser would make of a page: its elements, the texts of its rows."""

    VOID = ("meta", "input", "wbr")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.units: list[list[str]] = []
        self.texts: dict[str, str] = {}
        self._in_units = False
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in self.VOID:
            return
        self.open.append(tag)
        if tag == "table":
            self._in_units = ("class", "units") in attrs
        if tag == "tr" and self._in_units and "tbody" in self.open:
            self.units.append([])
        if tag == "td" and self._in_units:
            self.units[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts[self.open[-1] if self.open else ""] = data
        if self._in_units and "td" in self.open:
            self.units[-1][-1] += data


def test_the_page_has_a_row_for_each_kernel_of_each_unit(tmp_path: Path) -> None:
    files = bundle(
        made("a", "sm_80", data=cubin("a")), made("copy", "compute_80", {"copy": "copy"}, data=PTX)
    )
    shown = Page(html_page("w.whl", [facts_of(tmp_path, files)], {("a", "sm_80"): 1.25}))
    code = f"{len(cubin('a'))} B"
    assert shown.units == [
        ["a", "sm_80", "a", code, "1.25 s", "40", "0", "0", "0"],
        ["copy", "compute_80", "copy", f"{len(PTX)} B", "–", "–", "–", "–", "–"],  # noqa: RUF001
    ]


def test_the_page_shows_what_the_units_are_made_of(tmp_path: Path) -> None:
    text = html_page("w.whl", [facts_of(tmp_path / "a", bundle(made("k", data=cubin("k"))))], {})
    assert "Parts of the compiled code" in text
    assert "symbol tables of the rest" in text
    unreadable = html_page("w.whl", [facts_of(tmp_path / "b", bundle(made("k", data=b"x")))], {})
    assert "Parts of the compiled code" not in unreadable


def test_the_page_needs_nothing_from_anywhere_and_runs_its_own_script_alone(tmp_path: Path) -> None:
    text = html_page("w.whl", [facts_of(tmp_path, bundle(made("k", data=cubin("k"))))], {})
    shown = Page(text)
    assert not [each for each in shown.elements if {"src", "href", "style", "onclick"} & each[1].keys()]
    assert not re.search(r"https?:|url\(|@import", text)
    (policy,) = (attributes["content"] for tag, attributes in shown.elements if "http-equiv" in attributes)
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(shown.texts[tag].encode()).digest()).decode()}'"
        for tag in ("style", "script")
    ]
    assert policy == f"default-src 'none'; style-src {hashes[0]}; script-src {hashes[1]}"


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    evil = '</script><script>alert(1)</script><img src=x onerror="alert(2)">&lt;"\''
    files = bundle(
        made("m", "sm_80", {evil: "k"}, data=cubin("k"), variant={evil: evil}),
        made("n", "sm_80", {evil: "k"}, data=cubin("k"), variant={evil: evil}),
    )
    shown = Page(html_page(evil, [facts_of(tmp_path, files)], {}))
    assert not {"img", "a", "iframe"} & {tag for tag, _attributes in shown.elements}
    assert [tag for tag, _attributes in shown.elements].count("script") == 1
    assert [row[2] for row in shown.units] == [evil, evil]


def test_a_large_bundle_folds_its_charts_and_leaves_the_matrix_out(tmp_path: Path) -> None:
    names = [f"k{number:03}" for number in range(401)]
    files = bundle(*(made(name, "sm_80", data=cubin(name)) for name in names))
    text = html_page("w.whl", [facts_of(tmp_path, files)], {})
    assert len(Page(text).units) == 401
    assert "<summary>381 more</summary>" in text
    assert "Modules &times; archs" not in text


def test_the_page_says_what_each_gpu_runs_and_what_each_arch_takes_in_the_wheel(tmp_path: Path) -> None:
    files = bundle(
        made("a", "sm_80", data=cubin("a")),
        made("copy", "sm_90", {"copy": "copy"}, data=cubin("copy")),
        made("copy", "compute_80", {"copy": "copy"}, data=PTX),
    )
    facts = facts_of(tmp_path, files)
    text = html_page("w.whl", [facts], {})
    assert "compressed size in the wheel" not in text
    title, row = "<h3>What each GPU runs</h3>", text.partition("<h3>What each GPU runs</h3>")[2]
    assert text.count(title) == 1
    assert re.findall(r"<t[hd](?: [^>]*)?>(.*?)</t[hd]>", row.partition("</table>")[0]) == [
        *("kernels", "8.0", "9.0"),
        *("a", "sm_80", "nothing"),
        *("copy", "compute_80 from driver 11.0", "sm_90"),
    ]
    assert row.count('class="arch warn">nothing<') == 1
    facts["packed"]["archs"] = {"sm_80": 100, "sm_90": 200, "compute_80": 300}
    text = html_page("w.whl", [facts], {})
    assert [f"({count}&nbsp;B)" in text for count in (100, 200, 300)] == [True] * 3
    assert "<caption>the size in parentheses is the compressed size in the wheel</caption>" in text


def test_a_difference_stands_first_and_hostile_names_in_it_stay_text(tmp_path: Path) -> None:
    evil = '<script>alert(1)</script>"'
    table = ReportTable(["kernel", "for"], [[evil, evil]], numbers=[1], names=[0], marked=[evil])
    facts = facts_of(tmp_path, bundle(made("k", data=cubin("k"))))
    text = html_page("w.whl", [facts], {}, [ReportSection(evil, [evil], table)])
    shown = Page(text)
    assert [tag for tag, _attributes in shown.elements].count("script") == 1
    assert text.index("&lt;script&gt;") < text.index("<h2>")
    assert re.search(r'<td class="name warn">&lt;<wbr>script&gt;', text)
    assert re.search(r'<td class="number warn">&lt;<wbr>script&gt;', text)
