"""A flow as a picture: lifelines from top to bottom, the walker's states on its own lifeline.

Written as SVG with nothing that depends on the machine: text is text, and its width is estimated.
"""

from __future__ import annotations

import textwrap
from xml.etree import ElementTree

from protocol_flows import Event, Flow, Move

__all__ = ["svg"]

INK, GREY, FAINT, BAND = "#1f2933", "#5f6b7a", "#c9d1da", "#f3f6f9"
BLUE, ORANGE, GREEN, RED = "#2f6fab", "#c05f1c", "#2f7d4f", "#a33a3a"
SANS = "'Segoe UI', Helvetica, Arial, 'Liberation Sans', sans-serif"

LEFT, BOX, NOTES, NOTE_WIDTH = 275, 180, 300, 46
"""Of the walker's lifeline, its states' width, the notes' column and their characters a line."""


class _Canvas:
    def __init__(self, width: int) -> None:
        self.width = width
        self.behind: list[ElementTree.Element] = []
        self.front: list[ElementTree.Element] = []

    def put(self, tag: str, values: dict[str, object], *, text: str = "") -> None:
        behind = values.pop("behind", False)
        named = {name.replace("_", "-"): _number(v) for name, v in values.items()}
        element = ElementTree.Element(tag, named)
        if text:
            element.text = text
        (self.behind if behind else self.front).append(element)

    def text(self, x: float, y: float, words: str, **values: object) -> None:
        style: dict[str, object] = {"font_size": 12, "fill": INK, "text_anchor": "middle"}
        self.put("text", {"x": x, "y": y} | style | values, text=words)

    def line(self, x1: float, y1: float, x2: float, y2: float, **values: object) -> None:
        self.put("line", {"x1": x1, "y1": y1, "x2": x2, "y2": y2} | values)

    def box(self, x: float, y: float, width: float, height: float, **values: object) -> None:
        self.put("rect", {"x": x, "y": y, "width": width, "height": height} | values)

    def arrow_head(self, x: float, y: float, way: int, colour: str) -> None:
        points = f"{_number(x)},{_number(y)} {_number(x - 9 * way)},{_number(y - 4.5)} "
        path = f"M{points}{_number(x - 9 * way)},{_number(y + 4.5)}Z"
        self.put("path", {"d": path, "fill": colour})


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


class _Picture:
    """Draws one flow from top to bottom; `y` is where the next thing goes."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        apart = 300 if len(flow.roles) == 2 else 205 if len(flow.roles) == 3 else 165
        first = LEFT if flow.states else 210
        wide = [first + apart * at for at in range(len(flow.roles))]
        self.at = dict(zip(flow.roles, wide, strict=True))
        self.notes = wide[-1] + 62
        self.canvas = _Canvas(self.notes + NOTES)
        self.y = 132.0
        self.tops: dict[str, tuple[float, float]] = {}
        self.texts = dict(flow.states)

    def draw(self) -> str:
        flow, canvas = self.flow, self.canvas
        canvas.text(24, 36, flow.title, font_size=19, font_weight="bold", text_anchor="start")
        canvas.text(24, 57, flow.subtitle, font_size=13, fill=GREY, text_anchor="start")
        for role, x in self.at.items():
            self._head(role, x)
        if flow.start:
            self._state(flow.start)
        self._bands()
        last = self.y
        if flow.ends:
            self._end(flow.roles[-1])
        self._moves()
        self._off_course()
        self._key()
        bottom = max(self.y, last) + 14
        for x in self.at.values():
            canvas.line(x, 104, x, last + 6, stroke=FAINT, stroke_width=1.5, behind=True)
        return self._document(bottom)

    def _head(self, role: str, x: float) -> None:
        lines = textwrap.wrap(role, 20)
        self.canvas.box(x - 68, 74, 136, 32, rx=6, fill=INK)
        for at, line in enumerate(lines):
            y = 94.5 + (at - (len(lines) - 1) / 2) * 13
            size = 13 if len(lines) == 1 else 11
            self.canvas.text(x, y, line, fill="#ffffff", font_size=size, font_weight="bold")

    def _bands(self) -> None:
        events = list(self.flow.events)
        number = 0
        while events:
            name = events[0].round
            start = self.y
            self.y += 10
            while events and events[0].round == name:
                self._event(events.pop(0))
            self.y += 2
            fill = BAND if number % 2 == 0 else "#ffffff"
            whole, height = self.canvas.width - 24, self.y - start
            self.canvas.box(12, start, whole, height, rx=5, fill=fill, behind=True)
            label: dict[str, object] = {
                "font_size": 11.5,
                "font_weight": "bold",
                "text_anchor": "start",
            }
            self.canvas.text(20, start + 17, name, fill=GREY, **label)
            number += 1

    def _event(self, event: Event) -> None:
        lines = textwrap.wrap(event.note, NOTE_WIDTH)[:3]
        height = max(36, 15 * len(lines) + 10)
        middle = self.y + height / 2
        for at, line in enumerate(lines):
            y = middle + 4 + (at - (len(lines) - 1) / 2) * 14
            self.canvas.text(self.notes, y, line, font_size=11, fill=GREY, text_anchor="start")
        if event.sender == event.receiver:
            self._alone(event, middle)
        else:
            self._arrow(event, middle + 7)
        self.y += height
        if event.after:
            self._state(event.after)

    def _alone(self, event: Event, y: float) -> None:
        x = self.at[event.sender]
        width = 7.2 * len(event.name) + 26
        self.canvas.box(
            x - width / 2, y - 11, width, 22, rx=11, fill="#ffffff", stroke=GREY, stroke_width=1.2
        )
        self.canvas.text(x, y + 4, event.name, font_style="italic")

    def _arrow(self, event: Event, y: float) -> None:
        start, end = self.at[event.sender], self.at[event.receiver]
        way = 1 if end > start else -1
        colour = ORANGE if way > 0 else BLUE
        drawn = (start + 3 * way, end - 3 * way)
        self.canvas.line(
            drawn[0] + (9 if event.both else 0) * way,
            y,
            drawn[1] - 8 * way,
            y,
            stroke=colour,
            stroke_width=1.8,
        )
        self.canvas.arrow_head(drawn[1], y, way, colour)
        if event.both:
            self.canvas.arrow_head(drawn[0], y, -way, colour)
        label = f"{event.by}: {event.name}" if event.by else event.name
        near = self.flow.roles.index(event.receiver) - self.flow.roles.index(event.sender)
        middle = (start + end) / 2
        if abs(near) > 1:  # not across the lifelines between
            middle = end - way * 82 if end > start else start + way * 82
        halo: dict[str, object] = {"stroke": "#ffffff", "stroke_width": 3, "paint_order": "stroke"}
        self.canvas.text(middle, y - 7, label, fill=colour, font_weight="bold", **halo)

    def _state(self, name: str) -> None:
        x = self.at[self.flow.roles[0]]
        stays = [move.by for move in self.flow.stays if move.state == name]
        again = textwrap.wrap(f"stays: {', '.join(stays)}", 31) if stays else []
        height = 40 + 13 * len(again)
        self.y += 4
        self.canvas.box(
            x - BOX / 2, self.y, BOX, height, rx=7, fill="#ffffff", stroke=BLUE, stroke_width=1.6
        )
        self.canvas.text(x, self.y + 17, name, font_weight="bold", font_size=12.5)
        self.canvas.text(x, self.y + 32, self.texts[name], font_size=10.5, fill=GREY)
        for at, line in enumerate(again):
            y = self.y + 45 + 13 * at
            self.canvas.text(x, y, line, font_size=10.5, fill=GREEN)
        self.tops[name] = (self.y, height)
        self.y += height + 4

    def _end(self, role: str) -> None:
        x = float(self.at[role])
        width = 6.6 * len(self.flow.ends) + 26
        x = min(x, self.canvas.width - 20 - width / 2)
        self.canvas.box(x - width / 2, self.y + 8, width, 28, rx=7, fill=GREEN)
        self.canvas.text(x, self.y + 26, self.flow.ends, fill="#ffffff", font_weight="bold")
        self.ended = self.y
        self.y += 40

    def _off_course(self) -> None:
        x = self.at[self.flow.roles[0]] - BOX / 2
        if self.flow.aborted:
            y = self.ended + 8
            dash: dict[str, object] = {"stroke": RED, "stroke_dasharray": "5 3"}
            self.canvas.box(x, y, BOX, 36, rx=7, fill="#ffffff", stroke_width=1.6, **dash)
            name = self.flow.aborted
            self.canvas.text(x + BOX / 2, y + 15, name, font_weight="bold", font_size=12.5)
            words = "a check failed, or too few left"
            self.canvas.text(x + BOX / 2, y + 29, words, font_size=10.5, fill=RED)
            self.y = max(self.y, y + 42)

    def _key(self) -> None:
        if not self.flow.start:
            return
        words = ["stays: taken here, without a new state"]
        if self.flow.moves:
            words.append("green lines: to a state that is not the next")
        words.append("anything else is refused")
        self.y += 20
        text = "  ·  ".join(words)
        self.canvas.text(24, self.y, text, font_size=11, fill=GREEN, text_anchor="start")

    def _moves(self) -> None:
        off = [name for name in self.texts if name not in self.tops]
        if off:
            self.y = self.ended
        for name in off:
            self._state(name)
        groups: dict[tuple[str, str], list[Move]] = {}
        for move in self.flow.moves:
            groups.setdefault((move.by, move.after), []).append(move)
        for lane, ((by, after), moves) in enumerate(groups.items()):
            self._lane(lane, by, after, [move.state for move in moves])

    def _lane(self, lane: int, by: str, after: str, sources: list[str]) -> None:
        edge = self.at[self.flow.roles[0]] - BOX / 2
        x = edge - 16 - 17 * lane
        target = self.tops[after][0] + 12 + 6 * lane
        ys = [sum(self.tops[name]) - 10 - 5 * lane for name in sources]
        style: dict[str, object] = {"stroke": GREEN, "stroke_width": 1.4, "fill": "none"}
        reach = [*ys, target]
        self.canvas.line(x, min(reach), x, max(reach), **style)
        for y in ys:
            self.canvas.line(x, y, edge, y, **style)
        self.canvas.line(x, target, edge - 7, target, **style)
        self.canvas.arrow_head(edge, target, 1, GREEN)
        middle = (min(reach) + max(reach)) / 2
        turn = f"rotate(-90 {_number(float(x - 4))} {_number(middle)})"
        halo: dict[str, object] = {"stroke": "#ffffff", "stroke_width": 3, "paint_order": "stroke"}
        self.canvas.text(
            x - 4, middle, by, fill=GREEN, font_size=11, font_weight="bold", transform=turn, **halo
        )

    def _document(self, bottom: float) -> str:
        flow, size = self.flow, (self.canvas.width, round(bottom))
        root = ElementTree.Element(
            "svg",
            {
                "xmlns": "http://www.w3.org/2000/svg",
                "viewBox": f"0 0 {size[0]} {size[1]}",
                "width": str(size[0]),
                "height": str(size[1]),
                "font-family": SANS,
                "role": "img",
            },
        )
        ElementTree.SubElement(root, "title").text = f"{flow.title}, {flow.subtitle}"
        ElementTree.SubElement(root, "desc").text = f"flow sha256 {flow.digest}"
        ground = {"width": str(size[0]), "height": str(size[1]), "rx": "8", "fill": "#ffffff"}
        ElementTree.SubElement(root, "rect", ground)
        # Bands first, then lifelines, then what stands on them.
        for element in sorted(self.canvas.behind, key=lambda one: one.tag != "rect"):
            root.append(element)
        root.extend(self.canvas.front)
        ElementTree.indent(root)
        return ElementTree.tostring(root, encoding="unicode") + "\n"


def svg(flow: Flow) -> str:
    """Return the figure's text: the same flow always gives the same."""
    return _Picture(flow).draw()
