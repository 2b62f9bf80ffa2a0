"""Make a self-contained HTML page that shows the kernels in a wheel."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ... import __version__
from ...common.sizes import size
from .coverage import coverage, coverage_section, promised_capabilities, units_in_files
from .markup import breakable, escaped, scrolling, section_html
from .report import ReportSection
from .survey import BundleFacts, KernelFacts, UnitFacts, bundle_summary

CompileTimes = Mapping[tuple[str, str], float]  # The compile time in seconds for each module and arch.

_HTML_FILES = Path(__file__).with_name("html")
_COLOURS = 8
_MAX_UNFOLDED = 20  # a chart with more rows hides the rest behind a link
_MAX_MATRIX_ROWS = 400
_UNKNOWN = "&ndash;"
_PACKED = "the size in parentheses is the compressed size in the wheel"
_RESOURCES = {"registers": "registers", "shared": "shared memory", "stack": "stack", "spills": "spills"}


def html_page(
    title: str,
    bundles: Sequence[BundleFacts],
    seconds: CompileTimes,
    difference: Sequence[ReportSection] = (),
) -> str:
    """Return an HTML page about wheels. The page does not load anything, and runs only its own script."""
    style, script = (_HTML_FILES.joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    compared = f"<section>\n{''.join(map(section_html, difference))}\n</section>\n" if difference else ""
    sections = compared + "\n".join(_section(bundle, seconds) for bundle in bundles)
    return f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escaped(title)}: CUDA kernels</title>
<style>{style}</style>
</head>
<body>
<header><h1>{escaped(title)}</h1></header>
<main>
{sections}
</main>
<footer>
<p>Registers and stack are for each thread, shared memory is the static part for each block; spills are
instructions that save or reload a register. All numbers are read from the compiled files. For PTX,
these numbers are unknown, because the driver compiles PTX for the GPU.</p>
<p>Made by hatch-cubin {__version__}.</p>
</footer>
<script>{script}</script>
</body>
</html>
"""


def _section(facts: BundleFacts, seconds: CompileTimes) -> str:
    colours = _colours(facts["archs"])
    parts = [f"<h2>{escaped(facts['where'])}</h2>", _made_with(facts), _tiles(facts, seconds)]
    if facts["units"]:
        left = _arch_chart(facts, colours) + _content_chart(facts) + _time_chart(facts, seconds)
        parts += [
            f'<div class="charts"><div>{left}</div><div>{_module_chart(facts, colours)}</div></div>',
            _coverage(facts),
            _matrix(facts),
            _unit_table(facts["units"], seconds),
            _shared(facts),
        ]
    return f"<section>\n{''.join(parts)}\n</section>"


def _made_with(facts: BundleFacts) -> str:
    return "".join(f'<p class="soft">{escaped(line)}</p>' for line in bundle_summary(facts))


def _tiles(facts: BundleFacts, seconds: CompileTimes) -> str:
    totals = facts["totals"]
    tiles = {
        "size": size(totals["bytes"]),
        "in the wheel": None if totals["packed"] is None else size(totals["packed"]),
        "modules": totals["modules"],
        "archs": len(facts["archs"]),
        "units": totals["units"],
        "kernels": totals["kernels"],
        "saved by sharing": size(totals["shared"]) if totals["shared"] else None,
        "compile time": f"{sum(seconds.values()):.1f} s" if seconds else None,
    }
    shown = "".join(
        f"<div><dt>{name}</dt><dd>{escaped(value)}</dd></div>"
        for name, value in tiles.items()
        if value is not None
    )
    return f'<dl class="tiles">{shown}</dl>'


# --- charts ------------------------------------------------------------------------------------


def _colours(archs: Iterable[str]) -> dict[str, str]:
    """Return the CSS class that determines the colour of each arch, except PTX."""
    code = [arch for arch in archs if not arch.startswith("compute_")]
    step = _COLOURS / max(len(code), 1)
    return {
        arch: f"a{int(number * step) if step > 1 else number % _COLOURS}" for number, arch in enumerate(code)
    }


def _arch_chart(facts: BundleFacts, colours: Mapping[str, str]) -> str:
    archs, packed = facts["archs"], facts["packed"]["archs"]
    longest = max(archs.values())
    rows = [
        _chart_row(
            arch,
            [(arch, count, colours.get(arch, "ptx"))],
            longest,
            _size_and_packed(count, packed.get(arch)),
        )
        for arch, count in archs.items()
    ]
    return _chart("Size by arch", rows, _PACKED if any(packed.values()) else "")


def _module_chart(facts: BundleFacts, colours: Mapping[str, str]) -> str:
    parts: dict[str, list[tuple[str, int, str]]] = {}
    for unit in facts["units"]:
        part = (unit["arch"], unit["bytes"], colours.get(unit["arch"], "ptx"))
        parts.setdefault(unit["module"], []).append(part)
    longest = max(sum(count for _arch, count, _colour in part) for part in parts.values())
    ordered = sorted(facts["modules"].items(), key=lambda item: (-item[1], item[0]))
    packed = facts["packed"]["modules"]
    rows = [
        _chart_row(name, parts[name], longest, _size_and_packed(total, packed.get(name)))
        for name, total in ordered
    ]
    in_wheel = f"; {_PACKED}" if any(packed.values()) else ""
    return _chart("Size by module", rows, f"an arch has the same colour in all charts{in_wheel}")


def _size_and_packed(count: int, packed: int | None) -> str:
    whole, part = (None if each is None else size(each).replace(" ", "&nbsp;") for each in (count, packed))
    return f"{whole}" if part is None else f"{whole} ({part})"


def _content_chart(facts: BundleFacts) -> str:
    longest = max(facts["content"].values(), default=1)
    rows = [
        _chart_row(name, [(name, count, "seconds")], longest, size(count))
        for name, count in facts["content"].items()
    ]
    return _chart("Parts of the compiled code", rows, "unpacked") if rows else ""


def _time_chart(facts: BundleFacts, seconds: CompileTimes) -> str:
    times: dict[str, float] = {}
    for unit in facts["units"]:
        if (took := seconds.get((unit["module"], unit["arch"]))) is not None:
            times[unit["module"]] = times.get(unit["module"], 0.0) + took
    if not times:
        return ""
    ordered = sorted(times.items(), key=lambda item: (-item[1], item[0]))
    longest = max(ordered[0][1], 0.001)
    rows = [_chart_row(name, [(name, took, "seconds")], longest, f"{took:.2f} s") for name, took in ordered]
    return _chart(
        "Compile time by module",
        rows,
        "each time is the sum for all archs of the module, from the build report",
    )


def _chart(title: str, rows: Sequence[str], note: str = "") -> str:
    caption = f"<caption>{note}</caption>" if note else ""
    shown = f'<table class="chart">{caption}<tbody>{"".join(rows[:_MAX_UNFOLDED])}</tbody></table>'
    if rest := rows[_MAX_UNFOLDED:]:
        shown += (
            f"<details><summary>{len(rest)} more</summary>"
            f'<table class="chart"><tbody>{"".join(rest)}</tbody></table></details>'
        )
    return f"<div><h3>{title}</h3>{shown}</div>"


def _chart_row(name: str, parts: Sequence[tuple[str, float, str]], longest: float, total: str) -> str:
    rectangles, at = [], 0.0
    for label, amount, colour in parts:
        width = 100 * amount / (longest or 1)
        what = f"<title>{escaped(label)}</title>"
        rectangles.append(f'<rect x="{at:.3f}" width="{width:.3f}" height="1" class="{colour}">{what}</rect>')
        at += width
    shape = 'viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true"'
    bar = f'<svg class="bar" {shape}>{"".join(rectangles)}</svg>'
    return f'<tr><th scope="row" class="name">{breakable(name)}</th><td>{bar}</td>{_cell(total)}</tr>'


# --- tables ------------------------------------------------------------------------------------


def _coverage(facts: BundleFacts) -> str:
    units = units_in_files(facts)
    return section_html(coverage_section("What each GPU runs", coverage(units, promised_capabilities(units))))


def _matrix(facts: BundleFacts) -> str:
    archs, modules = list(facts["archs"]), list(facts["modules"])
    if len(modules) > _MAX_MATRIX_ROWS:
        return ""
    sizes = {(unit["module"], unit["arch"]): unit["bytes"] for unit in facts["units"]}
    largest = max(sizes.values()) or 1
    head = "".join(f'<th scope="col" class="number">{escaped(arch)}</th>' for arch in archs)
    rows = "".join(
        f'<tr><th scope="row" class="name">{breakable(name)}</th>'
        + "".join(_matrix_cell(sizes.get((name, arch)), largest) for arch in archs)
        + "</tr>"
        for name in modules
    )
    table = f'<table><thead><tr><th scope="col">module</th>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return f"<h3>Modules &times; archs</h3>{scrolling(table, 'Size of each module for each arch')}"


def _matrix_cell(count: int | None, largest: int) -> str:
    if count is None:
        return _cell(_UNKNOWN, " soft")
    return _cell(size(count), f" h{1 + min(4, 5 * count // largest)}")


def _unit_table(units: Sequence[UnitFacts], seconds: CompileTimes) -> str:
    names = ["module", "arch", "kernel", "size", *(["compiled"] if seconds else []), *_RESOURCES.values()]
    kinds = 3 * [""] + (len(names) - 3) * [' class="number"']
    head = "".join(
        f'<th scope="col"{kind}><button type="button">{name}</button></th>'
        for name, kind in zip(names, kinds, strict=True)
    )
    body = "\n".join(row for unit in units for row in _unit_rows(unit, seconds))
    table = f'<table class="units"><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>'
    field = '<input type="search" placeholder="module, arch or kernel">'
    find = f'<p class="find" hidden><label>Find {field}</label><output class="soft"></output></p>'
    return f"<section><h3>Kernels</h3>{find}{scrolling(table, 'What each kernel uses')}</section>"


def _unit_rows(unit: UnitFacts, seconds: CompileTimes) -> Iterator[str]:
    took = seconds.get((unit["module"], unit["arch"]))
    start = f'<td class="name">{breakable(unit["module"])}</td><td class="arch">{escaped(unit["arch"])}</td>'
    for number, kernel in enumerate([] if unit["problem"] else unit["kernels"]):
        again = " again" if number else ""
        numbers = _number(unit["bytes"], size(unit["bytes"]), again)
        if seconds:
            numbers += _number(took, None if took is None else f"{took:.2f} s", again)
        yield f'<tr>{start}<td class="name">{breakable(kernel["name"])}</td>{numbers}{_uses(kernel)}</tr>'
    if unit["problem"] or not unit["kernels"]:
        what = unit["problem"] or "contains no kernel"
        numbers = _number(unit["bytes"], size(unit["bytes"])) + _number(None, None) * (
            len(_RESOURCES) + bool(seconds)
        )
        yield f'<tr>{start}<td class="warn">{escaped(what)}</td>{numbers}</tr>'


def _uses(kernel: KernelFacts) -> str:
    cells = []
    for name in ("registers", "shared", "stack", "spills"):
        count = kernel[name]
        shown = (
            None if count is None else size(count) if name in ("shared", "stack") and count else f"{count}"
        )
        cells.append(_number(count, shown, " warn" if name == "spills" and count else ""))
    return "".join(cells)


def _number(value: float | None, shown: str | None, more: str = "") -> str:
    exact = "" if value is None else value
    return _cell(_UNKNOWN if shown is None else shown, more, f' data-value="{exact}"')


def _cell(shown: str, more: str = "", value: str = "") -> str:
    return f'<td class="number{more}"{value}>{shown}</td>'


def _shared(facts: BundleFacts) -> str:
    if not facts["shared"]:
        return ""
    rows = "".join(
        f'<tr><td class="name">{breakable(each["file"])}</td><td class="number">{size(each["bytes"])}</td>'
        f'<td class="name">{escaped(", ".join(each["units"]))}</td></tr>'
        for each in facts["shared"]
    )
    head = '<th scope="col">file</th><th scope="col" class="number">size</th><th scope="col">serves</th>'
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f"<h3>Identical results, stored once</h3>{scrolling(table, 'Files that serve several units')}"


def _hash(part: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()}"
