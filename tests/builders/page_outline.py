"""The content of a page as a browser reads it, for tests."""

from __future__ import annotations

import base64
import json
from html.parser import HTMLParser


class Outline(HTMLParser):
    """What a browser would see: tags with their attributes, and the text inside each kind of tag; data for the script is apart."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.texts, self.open, self.data = [], {}, [], []
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
        if self.open and self.open[-1] == "script" and "type" in self.tags[-1][1]:
            self.data.append(data)
            return
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)

    def values(self, attribute):
        return [attributes[attribute] for _, attributes in self.tags if attribute in attributes]

    def lines(self):
        """The packed lines of groups in this file, each by column; with the whole anchor, and what the file says of all of them."""
        if not self.data:
            return []
        (text,) = self.data
        packed = json.loads(text)
        known = {"cluster": [], "strategy": []}
        unpacked = []
        for rank, line in enumerate(packed["lines"], packed["first"]):
            line = dict(zip(packed["columns"], line, strict=True))
            for name, texts in known.items():
                if isinstance(line[name], int):
                    line[name] = texts[line[name]]
                else:
                    texts.append(line[name])
            anchor = "group-" + base64.urlsafe_b64decode(line["anchor"] + "=").hex()
            unpacked.append({**line, "rank": rank, "anchor": anchor, "last_seen": packed["newest"] - line["seconds_ago"]})
        return unpacked
