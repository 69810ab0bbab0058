"""Check that every link of a built site leads somewhere: to a file, and to an anchor in it.

``python scripts/check_site.py build/docs``. Nothing is fetched: of addresses elsewhere only the
form is checked. Pages may link to other sites, but must load nothing from them.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {"img": "src", "script": "src", "source": "src", "iframe": "src"}


class Page(HTMLParser):
    """The anchors that a page has, what it links to, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what one element has."""
        found = {name: value for name, value in attrs if value is not None}
        if "id" in found:
            self.anchors.add(found["id"])
        if tag == "a" and "name" in found:
            self.anchors.add(found["name"])
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag == "link" and found.get("rel") != "canonical" and "href" in found:
            (self.loads if found.get("rel") == "stylesheet" else self.links).append(found["href"])
        if _LOADED.get(tag, "") in found:
            self.loads.append(found[_LOADED[tag]])


def problems(site: Path) -> list[str]:
    """Return what is wrong with the links of a site, a line each.

    Parameters
    ----------
    site : pathlib.Path
        The folder that Sphinx built.
    """
    pages = {
        path.resolve(): Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")
    }
    if not pages:
        return [f"{site}: no pages"]
    wrong = []
    for path, page in sorted(pages.items()):
        name = path.relative_to(site.resolve()).as_posix()
        for target in {*page.links, *page.loads}:
            fault = _fault(path, target, pages, loaded=target in page.loads)
            if fault:
                wrong.append(f"{name}: {target}: {fault}")
    return sorted(wrong)


def _fault(path: Path, target: str, pages: dict[Path, Page], *, loaded: bool) -> str | None:
    parts = urlsplit(target)
    if parts.scheme in {"data", "mailto"}:
        return None
    if parts.scheme or parts.netloc:
        if loaded:
            return "loaded from elsewhere"
        good = parts.scheme in {"http", "https"} and "." in parts.netloc and " " not in target
        return None if good else "not an address"
    where = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not where.is_file():
        return "no such file"
    anchor = unquote(parts.fragment)
    if anchor and where in pages and anchor not in pages[where].anchors:
        return "no such anchor"
    return None


def main() -> int:
    """Check the site that is named on the command line; return the exit status."""
    wrong = problems(Path(sys.argv[1]))
    print("\n".join(wrong) or "every link leads somewhere")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
