"""A page as a browser would see it, for tests."""

from __future__ import annotations

from html.parser import HTMLParser


class Outline(HTMLParser):
    """What a browser would see: tags with their attributes, and the text inside each kind of tag."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.texts, self.open = [], {}, []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "input", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes <{self.open[-1:]}>"
        self.open.pop()

    def handle_data(self, data):
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)

    def values(self, attribute):
        return [attributes[attribute] for _, attributes in self.tags if attribute in attributes]
