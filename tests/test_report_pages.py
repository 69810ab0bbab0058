"""The page of every command: whole in itself, labelled, readable on a phone and on paper."""

from __future__ import annotations

import base64
import html
import importlib
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from privagg.cli import main
from privagg.entropy import from_seed
from privagg.report import Choropleth, Column, Plot, Report, Series, Table

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

# With inputs as small as they come; MADE makes files that COMMANDS read.
MADE = """
simulate secagg --clients 8 --dim 20 --threat active --transcript round.jsonl --transcript-payloads
ldp init --attributes one.toml --epsilon 1 --out config.json
ldp randomize config.json --input mine.csv --out reports.bin
ldp aggregate config.json reports.bin --out state.bin
"""
COMMANDS = """
simulate secagg --data adult --column education --clients 12 --dropout 0.1 --seed 1
simulate sensor --nodes 60 --area 120 --range 50 --seed 1
simulate multidim --input people.csv --columns sex,race,state --epsilon 1 --seed 1
simulate locational --input people.csv --region state:states.txt --value income:int[0,50]
    --epsilon 2 --seed 1
simulate responses --input responses.csv --target target --bag-size 5 --epsilon 2 --seed 1
plan secagg --clients 50 --dim 1000
plan ldp --users 5000 --domain 7,4 --epsilon 1
plan responses --samples 1000 --features 50 --snr 2 --epsilon 2
audit secagg --transcript round.jsonl
audit linear --participation log.csv --schedules
audit sensor --protocol cpda --protocol cpda-field --runs 30 --seed 1
audit ldp --values 8 --epsilon 1 --oracles grr,oue --trials 2000
audit responses --bags bags.parquet
data show adult
ldp estimate state.bin
"""
GRADIENT = "audit gradient --demo --attack analytic --trials 100"


def lines(text):
    return text.replace("\n    ", " ").strip().splitlines()


def write_inputs():
    from privagg.protocols.responses import Bags, Curator, Release

    labels = (np.arange(60) % 7 == 0).astype(int)
    bags = Bags.random(60, 4, from_seed(0))
    Curator(Release(classes=2, epsilon=None), bags).release(labels).write(Path("bags.parquet"))
    took_part = enumerate(("ab", "cd", "bc", "abcd", "ac"))
    rows = "".join(f"{number},{who}\n" for number, present in took_part for who in present)
    Path("log.csv").write_text("round,client\n" + rows)
    words = (
        '[attributes.colour]\nkind = "categorical"\nvalues = ["red", "green"]\nunknown = "other"\n'
    )
    Path("one.toml").write_text(words)
    Path("mine.csv").write_text("colour\n" + "red\ngreen\nred\nblue\n" * 50)
    states = ("CA", "NY", "TX", "WA")
    Path("states.txt").write_text("\n".join(states) + "\n")
    people = "".join(f"{states[i % 4]},{i % 50},{'mf'[i % 2]},{'abc'[i % 3]}\n" for i in range(400))
    Path("people.csv").write_text("state,income,sex,race\n" + people)
    drawn = np.random.default_rng(0).normal(size=(300, 2))
    rows = "".join(f"{x:.3f},{z:.3f},{int(x + z > 0)}\n" for x, z in drawn)
    Path("responses.csv").write_text("a,b,target\n" + rows)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Return the report and the page of every command that writes one."""
    commands = [*lines(MADE), *lines(COMMANDS)]
    try:
        import torch
    except ModuleNotFoundError:
        pass
    else:
        torch.set_num_threads(1)
        commands.append(GRADIENT)
    found, reports = {}, []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("pages"))
        save = Report.save_html
        patch.setattr(
            Report, "save_html", lambda self, path: (reports.append(self), save(self, path))
        )
        write_inputs()
        for line in commands:
            asked = [] if line in lines(MADE) else ["--report", "page.html"]
            assert main.run([*line.split(), *asked, "--quiet"]) in (0, 5), line
            if asked:
                name = " ".join(line.split()[:2])
                found[name] = reports.pop(), Path("page.html").read_text("utf-8")
    return found


def test_every_command_that_has_the_option_is_here():
    def walk(table, path):
        for name, entry in table.items():
            if not hasattr(entry, "target"):
                yield from walk(entry.children, [*path, name])
                continue
            module, _, attribute = entry.target.partition(":")
            command = getattr(importlib.import_module(module), attribute)
            if any("--report" in option.opts for option in command.params):
                yield " ".join([*path, name])

    found = set(walk(main.COMMANDS, []))
    mine = {" ".join(line.split()[:2]) for line in [*lines(COMMANDS), GRADIENT]}
    assert {name for name in found if not name.startswith("bench")} == mine


class Reader(HTMLParser):
    """Collects what the tests ask about."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text = [], {}
        self.open = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if self.open:
            self.text.setdefault(self.open[-1], []).append(data)


def test_pages_are_whole_and_titled(pages):
    for name, (report, page) in pages.items():
        read = Reader(page)
        assert ("html", {"lang": "en"}) in read.tags, name
        assert read.text["title"] == read.text["h1"] == [report.title], name
        levels = [int(tag[1]) for tag, _ in read.tags if re.fullmatch(r"h\d", tag)]
        assert levels == [1, *[2] * (len(levels) - 1)], name
        for tag, attributes in read.tags:
            for key in ("src", "href", "xlink:href"):
                assert attributes.get(key, "#").startswith(("#", "data:image/")), (name, tag)
            assert tag not in ("script", "link", "iframe", "object"), name
        assert not re.search(r"@import|url\((?!#)", page), name
        pictures = [a for _, a in read.tags if a.get("role") in ("img", "group")]
        assert len(pictures) >= len(report.plots), name
        assert all(len(a["aria-label"]) > 3 for a in pictures), name
        assert len(read.text.get("figcaption", [])) == len(report.plots), name


def test_axes_are_labelled(pages):
    for name, (report, _) in pages.items():
        assert report.plots, name
        for plot in report.plots:
            assert plot.title, name
            if isinstance(plot, Plot):
                assert plot.x_label.strip(), (name, plot.title)
                assert plot.y_label.strip(), (name, plot.title)
                assert plot.kind != "heatmap" or plot.value_label.strip(), (name, plot.title)
            # Quantities that have a unit name it.
            words = [getattr(plot, part, "") for part in ("x_label", "y_label", "value_label")]
            for word in words:
                if re.search(r"\b(bytes|energy|time|distance)\b", word):
                    assert re.search(r"\[\S.*\]", word), (name, word)


def test_long_words_and_wide_tables_are_kept_within_their_frames():
    report = awkward()
    page = report.to_html()
    assert page.count('class="scroll"') == 1
    assert page.count('class="long"') == 1
    assert page.count('<table class="wide"') == 1
    assert "@media print" in page
    assert "@media screen and (prefers-color-scheme: dark)" in page


def awkward():
    heads = [Column(f"column {i}", "µJ") for i in range(16)]
    wide = [[f"word{i}" * 4 for i in range(15)] + ["many words " * 12]]
    names = [f"a category with a long name, number {i}" for i in range(30)]
    bars = [Series(f"a series with a rather long name {i}", names, range(30)) for i in range(3)]
    plot = Plot(kind="bar", title="many " * 20, x_label="x", y_label="y", series=bars)
    word = "unbroken" * 30
    return Report(word, {"key": word}, [Table("wide", heads, wide)], [plot], [word], word)


def browse(*flags, folder):
    base = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={folder / 'profile'}",
    ]
    return subprocess.run([*base, *flags], capture_output=True, text=True, timeout=240, check=True)


MEASURE = """
onload = async () => {
  const lines = [];
  for (const frame of document.querySelectorAll("iframe")) {
    const page = frame.contentDocument;
    const bad = [];
    for (const one of page.querySelectorAll("image")) {
      const image = new Image();
      image.src = one.getAttribute("href");
      await image.decode().catch(() => bad.push("image"));
    }
    for (const one of page.querySelectorAll("svg"))
      if (one.getBoundingClientRect().width < 200) bad.push("svg");
    const asked = frame.contentWindow.performance.getEntriesByType("resource").length;
    const size = page.documentElement.scrollWidth - frame.contentWindow.innerWidth;
    lines.push([frame.id, size, asked, bad.length].join("|"));
  }
  const out = document.createElement("pre");
  out.id = "measured";
  out.textContent = lines.join("\\n");
  document.body.append(out);
};
"""


@needs_chromium
def test_no_page_scrolls_sideways_on_a_phone_on_a_desk_or_on_paper(pages, tmp_path):
    every = {name: page for name, (_, page) in pages.items()} | {"awkward": awkward().to_html()}
    frames = []
    for name, page in every.items():
        # As wide as A4 between its margins, with the rules for paper.
        paper = page.replace("@media print", "@media all")
        assert paper != page
        for kind, width, text in (("phone", 390, page), ("desk", 1200, page), ("a4", 680, paper)):
            quoted = html.escape(text)
            frames.append(f'<iframe id="{name}/{kind}" width={width} srcdoc="{quoted}"></iframe>')
    outer = tmp_path / "outer.html"
    outer.write_text(f"<!doctype html>{''.join(frames)}<script>{MEASURE}</script>", "utf-8")
    dom = browse("--dump-dom", "--virtual-time-budget=20000", outer.as_uri(), folder=tmp_path)
    measured = re.search(r'<pre id="measured">(.*?)</pre>', dom.stdout, re.DOTALL)
    assert measured
    rows = [line.split("|") for line in measured[1].splitlines()]
    assert len(rows) == len(frames)
    assert [row for row in rows if row[1:] != ["0", "0", "0"]] == []


@needs_chromium
def test_a_page_is_printed(pages, tmp_path):
    source, target = tmp_path / "page.html", tmp_path / "page.pdf"
    source.write_text(pages["simulate secagg"][1], "utf-8")
    browse("--no-pdf-header-footer", f"--print-to-pdf={target}", source.as_uri(), folder=tmp_path)
    assert len(re.findall(rb"/Type\s*/Page\b", target.read_bytes())) >= 2


def test_a_picture_holds_what_it_says(pages):
    """Rasters inside of pages are whole PNG files: a heat map's cells, an audit's pictures."""
    found = 0
    for _, page in pages.values():
        for encoded in re.findall(r'href="data:image/png;base64,([^"]*)"', page):
            raw = base64.b64decode(encoded)
            assert raw.startswith(b"\x89PNG")
            assert raw.rstrip().endswith(b"IEND\xaeB`\x82")
            found += 1
    assert found >= 1


def test_maps_name_every_region(pages):
    report, page = pages["simulate locational"]
    maps = [plot for plot in report.plots if isinstance(plot, Choropleth)]
    assert maps
    for area in maps[0].areas:
        assert area.region in page
