"""Checks of a report page: its text by an HTML parser, its rendering in a browser."""

from __future__ import annotations

from html.parser import HTMLParser

from tests.support.browser import Browser

# JavaScript that returns the visible marks of each plot.
PLOTS = """[...document.querySelectorAll('figure svg[role=img]')].map(svg => ({
    label: svg.getAttribute('aria-label'),
    marks: [...svg.querySelectorAll('.mark')].filter(mark => {
        const box = mark.getBoundingClientRect(), style = getComputedStyle(mark);
        const drawn = style.fill !== 'none' || style.stroke !== 'none';
        return drawn && box.height > 0 && (box.width > 0 || parseFloat(style.strokeWidth) > 0);
    }).length,
}))"""
OVERFLOW = """[...document.querySelectorAll('body *')].filter(element => {
    const box = element.getBoundingClientRect();
    return box.right > innerWidth + 0.5 && box.width > 0 && !element.closest('.table, nav ul');
}).map(element => element.outerHTML.slice(0, 200))"""


def assert_page_is_rendered(tab: Browser, *, plots_min: int) -> None:
    """The open page shows every plot, has no overflow, loads nothing and runs no injected script."""
    plots = tab.evaluate(PLOTS)

    assert tab.errors == []
    assert len(plots) >= plots_min
    assert [plot["label"] for plot in plots if not plot["marks"]] == []
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert tab.evaluate(OVERFLOW) == []
    assert tab.evaluate("document.images.length") == 0
    assert tab.evaluate("typeof alert.called") == "undefined"


class Reader(HTMLParser):
    """The tags, the attribute names and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.addresses: list[str] = []
        self.texts: list[str] = []
        self.data = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.update(name for name, _ in attrs)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "action")]

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] == "script" and data.startswith("{"):
            self.data = data
        self.texts.append(data)
