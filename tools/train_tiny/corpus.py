#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns unpacked Debian documentation packages into the text that the model is trained on.

usage: corpus.py PACKAGES OUT
  PACKAGES  a folder with one unpacked package per subfolder: PACKAGES/rust-doc/usr/share/doc/...
  OUT       receives docs_train.xz and docs_val.xz, documents separated by a line that holds one NUL

Manual pages are rendered by mandoc, HTML is stripped of its markup, plain text is taken as it is. Translations are
left out, except for the Chinese manual pages. The same packages give the same two files.
"""
import argparse
import collections
import gzip
import hashlib
import html.parser
import lzma
import multiprocessing
import pathlib
import random
import re
import subprocess

SEPARATOR = "\n\0\n"
MIN_BYTES, MAX_BYTES = 600, 3_000_000  # of a file
MIN_CHARS, MAX_CHARS = 400, 200_000  # of a document; what is longer is cut
VALIDATION_SHARE = 100  # one document of so many is held out
PACKAGE_CHARS = collections.defaultdict(  # a package stops contributing behind so many characters
    lambda: 10_000_000,
    {
        "rust-doc": 12_000_000,
        "linux-doc-6.1": 40_000_000,
        "sqlite3-doc": 6_000_000,
        "cppreference-doc-en-html": 12_000_000,
        "debian-handbook": 6_000_000,
    },
)

TRANSLATION_FOLDER = re.compile(
    r"/(de|fr|es|it|ja|ru|pt|pt-BR|nl|cs|pl|ko|da|sv|vi|tr|ca|el|hu|ro|fi|nb|nb-NO|ar-MA|fa-IR|hr|id|zh_TW|zh-TW|uk|sk"
    r"|gl|lt)(/|-)"
)
TRANSLATION_FILE = re.compile(r"\.(da|de|es|fr|ja|ko|tr|pt-br|zh-cn|ru|it)(\.|$)")
NOT_TEXT = (
    ".html.de", ".fr", ".ko.euc-kr", ".tr.utf8", ".ja.utf8", ".es", ".png", ".svg", ".js", ".css", ".pdf", ".dat",
    ".gif", ".xml", ".py", ".c", ".h",
)
HTML, PLAIN = (".html", ".htm", ".xhtml"), (".txt", ".rst", ".md", ".text")
PLAIN_FOLDER = ("/fortunes", "/rst/", "/_sources/")


class TextOfHtml(html.parser.HTMLParser):
    """Collects the visible text: a line break at each block, white space folded outside of <pre>."""

    HIDDEN = {"script", "style", "head", "nav", "footer"}
    BLOCKS = {"p", "div", "li", "tr", "h1", "h2", "h3", "h4", "h5", "pre", "dt", "dd", "br", "table", "ul", "ol",
              "section", "title"}

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.parts = []
        self.hidden = 0
        self.preformatted = 0

    def handle_starttag(self, tag, attrs):
        if tag in self.HIDDEN:
            self.hidden += 1
        if tag == "pre":
            self.preformatted += 1
        if tag in self.BLOCKS:
            self.parts.append("\n")
        if tag == "li":
            self.parts.append("- ")
        if tag in ("td", "th"):
            self.parts.append(" ")

    def handle_endtag(self, tag):
        if tag in self.HIDDEN and self.hidden:
            self.hidden -= 1
        if tag == "pre" and self.preformatted:
            self.preformatted -= 1
        if tag in self.BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data):
        if not self.hidden:
            self.parts.append(data if self.preformatted else re.sub(r"\s+", " ", data))


def tidy(text):
    text = text.replace("\r", "").replace("\u00b6", "").replace("\xa0", " ")
    text = re.sub(r"[ \t]+\n", "\n", text)
    text = re.sub(r"\n{3,}", "\n\n", text)
    text = re.sub(r"\n(- )\n", "\n- ", text)
    return text.strip()


def document(path):
    """The text of one file, or None where it has none for us."""
    name = str(path)
    try:
        raw = gzip.open(path).read() if name.endswith(".gz") else path.read_bytes()
    except (OSError, EOFError):
        return None
    name = name.removesuffix(".gz")
    if not MIN_BYTES <= len(raw) <= MAX_BYTES:
        return None
    if re.search(r"/man\d?/|/man/", name):
        try:
            page = subprocess.run(["mandoc", "-Tutf8", "-Owidth=100"], input=raw, capture_output=True, timeout=20)
        except subprocess.TimeoutExpired:
            return None
        return tidy(re.sub(".\x08", "", page.stdout.decode("utf8", "ignore")))  # overstriking makes bold
    text = raw.decode("utf8", "ignore")
    if name.endswith(HTML):
        parser = TextOfHtml()
        try:
            parser.feed(text)
        except AssertionError:  # how html.parser refuses a broken declaration
            return None
        return tidy("".join(parser.parts))
    if name.endswith(PLAIN) or any(folder in name for folder in PLAIN_FOLDER):
        return tidy(text)
    return None


def candidates(packages):
    """Every file that may hold English text, in an order that mixes the packages."""
    found = []
    for path in sorted(packages.rglob("*")):
        place = "/" + str(path.relative_to(packages))
        if path.is_symlink() or not path.is_file() or TRANSLATION_FOLDER.search(place.rpartition("/")[0] + "/"):
            continue
        if "genindex" in path.name or "searchindex" in path.name or path.name.endswith(NOT_TEXT):
            continue
        if not TRANSLATION_FILE.search(path.name):
            found.append(path)
    random.Random(1).shuffle(found)
    return found


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("packages", type=pathlib.Path)
    arguments.add_argument("out", type=pathlib.Path)
    options = arguments.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    paths = candidates(options.packages)
    chars = collections.Counter()  # by package
    seen = set()  # digests of beginnings
    train, validation = [], []
    with multiprocessing.Pool() as pool:
        for path, text in zip(paths, pool.imap(document, paths, chunksize=32)):
            if not text or len(text) < MIN_CHARS:
                continue
            digest = hashlib.sha256(text[:2000].encode()).digest()
            package = path.relative_to(options.packages).parts[0]
            if digest in seen or chars[package] > PACKAGE_CHARS[package]:
                continue
            seen.add(digest)
            text = text[:MAX_CHARS]
            chars[package] += len(text)
            (validation if int.from_bytes(digest[:8], "big") % VALIDATION_SHARE == 0 else train).append(text)
    for name, documents in (("docs_train.xz", train), ("docs_val.xz", validation)):
        with lzma.open(options.out / name, "wt", encoding="utf-8", preset=3, newline="") as file:
            file.write(SEPARATOR.join(documents))
        print(f"{name}: {len(documents)} documents, {sum(map(len, documents)) / 1e6:.1f} M characters")
    for package, count in chars.most_common():
        print(f"{count / 1e6:8.2f} M characters  {package}")


if __name__ == "__main__":
    main()
