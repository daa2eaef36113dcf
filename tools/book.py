#!/usr/bin/env python3
"""Puts the pages of docs/ together as a book and builds it with mdBook.

usage: book.py [--mdbook PATH] [--no-build]

Copies docs/ to target/book-src, adds the list of codes and the decisions to the summary, and runs `mdbook build` into
target/book. Without --mdbook it takes the one on the path, or else installs one into target/tools with cargo (only what
building needs, unoptimised: about a minute of compiling). Then every link of the built pages is followed. Exit 1 when one leads nowhere.
"""
import argparse, html, pathlib, re, shutil, subprocess, sys, urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
SRC, OUT, TOOLS = (ROOT / "target" / n for n in ("book-src", "book", "tools"))
VERSION = "0.5.4"


def title(page):
    return page.read_text().split("\n", 1)[0].lstrip("# ").strip()


def assemble():
    shutil.rmtree(SRC, ignore_errors=True)
    shutil.copytree(ROOT / "docs", SRC)
    order = "TPKVLNECSUI"
    codes = sorted((SRC / "errors").glob("[A-Z][0-9]*.md"), key=lambda p: (order.find(p.stem[0]), p.stem))
    decisions = sorted((SRC / "rationale").glob("*.md"))
    stages = {
        "P": "reading", "K": "KLR to BIR", "V": "verifier", "L": "passes", "N": "linking", "E": "encoding",
        "C": "checks", "S": "simulation", "U": "usage", "I": "internal", "T": "tracing",
    }
    out, last = ["# Codes", "", "`tandem explain CODE` prints the same pages."], None
    for page in codes:
        if page.stem[0] != last:
            last = page.stem[0]
            out += ["", f"## {last}: {stages.get(last, last)}", ""]
        name, _, text = title(page).partition(": ")
        out.append(f"- [{name}](errors/{page.name}): {text}")
    (SRC / "codes.md").write_text("\n".join(out) + "\n")
    summary = (SRC / "SUMMARY.md").read_text()
    lines = "".join(f"- [{title(p)}](rationale/{p.name})\n" for p in decisions)
    summary = summary.replace("# Decisions\n\n", f"# Decisions\n\n{lines}\n", 1)
    summary += "".join(f"  - [{title(p).partition(':')[0]}](errors/{p.name})\n" for p in codes)
    (SRC / "SUMMARY.md").write_text(summary)
    return len(codes)


def mdbook(given):
    for found in (given, shutil.which("mdbook"), shutil.which("mdbook", path=str(TOOLS / "bin"))):
        if found:
            return found
    print("installing mdBook into target/tools", flush=True)
    subprocess.run(
        ["cargo", "install", "mdbook", "--version", VERSION, "--locked", "--no-default-features", "--debug", "--root", TOOLS],
        check=True,
        env={**__import__("os").environ, "CARGO_TARGET_DIR": str(TOOLS / "build"), "CARGO_PROFILE_DEV_DEBUG": "0"},
    )
    return str(TOOLS / "bin" / "mdbook")


def dead_links():
    """Links of the built pages that lead nowhere."""
    pages = {p: set(re.findall(r'\bid="([^"]+)"', p.read_text())) for p in OUT.rglob("*.html")}
    for page in sorted(pages):
        for href in re.findall(r'<a\b[^>]*\bhref="([^"]+)"', page.read_text()):
            url = urllib.parse.urlsplit(html.unescape(href))
            if url.scheme or url.netloc:
                continue
            target = (page.parent / urllib.parse.unquote(url.path)).resolve() if url.path else page
            if not target.exists() or (url.fragment and target in pages and urllib.parse.unquote(url.fragment) not in pages[target]):
                yield f"{page.relative_to(OUT)}: {href}"


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--mdbook")
    a.add_argument("--no-build", action="store_true", help="only put the pages together")
    a = a.parse_args()
    codes = assemble()
    if a.no_build:
        return 0
    subprocess.run([mdbook(a.mdbook), "build", ROOT], check=True)
    dead = list(dict.fromkeys(dead_links()))
    for d in dead:
        print("dead link:", d)
    count = sum(1 for _ in OUT.rglob("*.html"))
    print(f"{count} pages, {codes} codes, {len(dead)} dead links: {OUT / 'index.html'}")
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main())
