"""The tour of docs/tour.md as printed: files are saved, commands run in order, outputs compared."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

DOCS = pathlib.Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)


def steps(text):
    """`(files so far, commands, expected output)` of every block of commands."""
    files, out, waiting = {}, [], None
    for kind, body in BLOCK.findall(text):
        if kind == "python":
            files[re.match(r"# (\S+)\n", body)[1]] = body
        elif kind == "sh":
            out.append((dict(files), body, None))
            waiting = len(out) - 1
        elif kind == "text":
            assert waiting is not None, f"output without a command: {body}"
            out[waiting] = (*out[waiting][:2], body)
            waiting = None
    return out


def matches(want, got):
    """Whether an output is as printed; `...` in a line stands for anything, alone on it for any number of lines."""
    pattern = ""
    for line in want.splitlines():
        if line == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*".join(re.escape(part) for part in line.split("...")) + r"\n"
    return re.fullmatch(pattern, got if got.endswith("\n") or not got else got + "\n") is not None


def test_comparison():
    assert matches("a\n...\nb ... c\n", "a\nx\ny\nb 12 c\n") and matches("a\n...\nb\n", "a\nb\n")
    assert not matches("a\nb\n", "a\nx\nb\n") and not matches("a\n", "a\nb\n") and not matches("b ... c\n", "b c\n")


def run(command, folder, extra=()):
    # The commands of this environment come first, those a test of an uninstalled tree makes before them.
    path = os.pathsep.join([*map(str, extra), str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
    env = {**os.environ, "PATH": path, "NO_COLOR": "1", "COLUMNS": "200", "TERM": "dumb"}
    env.pop("PYTEST_ADDOPTS", None)
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


@pytest.mark.parametrize("page", ["tour.md"])
def test_commands_as_printed(page, tmp_path):
    blocks = steps((DOCS / page).read_text())
    assert len(blocks) >= 8
    for files, command, want in blocks:
        for name, body in files.items():
            (tmp_path / name).write_text(body)
        done = run(command, tmp_path)
        assert want is not None or done.returncode == 0, done.stdout
        assert want is None or matches(want, done.stdout), f"{command}\nprinted:\n{done.stdout}\ndocumented:\n{want}"


def test_links():
    """Links between the pages lead somewhere; `codes.md` is made with the book."""
    for page in DOCS.glob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", re.sub(r"`[^`\n]*`", "", BLOCK.sub("", page.read_text()))):
            assert target == "codes.md" or (page.parent / target).exists(), f"{page.name}: {target}"


def test_codes_of_tracing():
    """The table of codes is that of the package."""
    from tandem.errors import TRACE_CODES

    rows = re.findall(r"^\| (T\d+) \| (.*) \|$", (DOCS / "python.md").read_text(), re.M)
    assert dict(rows) == TRACE_CODES
