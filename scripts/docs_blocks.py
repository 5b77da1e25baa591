#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the code blocks of README.md and docs/**/*.md.

The language tag of a fenced block says what is done with it:

  ```cpp          A program (it has `int main`) is built against rondo and run. Anything else is a
                  fragment: its #includes go to the top, the rest into a coroutine (or, without any
                  co_await, into a function that returns int), where the names of
                  tests/docs/preamble.hpp are in scope. Fragments are built, but not run.
  ```sh ```bash   Run with `set -euo pipefail` in a clean copy of the tree in which
                  build/release/bin holds the programs of the build.
  ```python       A program, run by the interpreter into which scripts/python installed the package;
                  `make test` does that behind the tests of the package.
  ```text         Not code: output, a wire format, a picture.

No tag, or any other, is an error. A comment on the line before the block directs it:

  <!-- test: run -->            cpp: run a fragment too
  <!-- test: compile -->        cpp: do not run a program
  <!-- test: declarations -->   cpp: the fragment goes to namespace scope, not into a function
                                (guessed where a line defines a function)
  <!-- test: wrong (why) -->    cpp: shows a mistake and says "wrong" itself; built, without
                                warnings, and never run
  <!-- test: continue -->       appended to the block before it, of the same language
  <!-- test: ci (stage) -->     sh: not run, for that stage of .ci/run does; every command must be
                                literally that of a stage or of a recipe of the Makefile

Commands:
  check ROOT                    report every mistake; exit code 1 if there is one
  generate ROOT OUT             write the sources, and OUT/blocks.cmake, which lists them
  python ROOT                   run every Python program with this interpreter
  run ROOT SCRIPT [BIN]         run a generated shell script in a clean copy of ROOT
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

LANGUAGES = {"cpp": "cpp", "sh": "sh", "bash": "sh", "python": "python", "text": "text"}
DIRECTIVES = {
    "cpp": {"run", "compile", "declarations", "wrong", "continue"},
    "sh": {"ci", "continue"},
    "python": {"continue"},
    "text": set(),
}
TAKES_WORDS = {"wrong": "why", "ci": "stage"}

FENCE = re.compile(r"^(?P<indent>\s*)(?P<fence>`{3,}|~{3,})\s*(?P<info>[^`]*?)\s*$")
QUOTED_FENCE = re.compile(r"^\s*>[\s>]*(```|~~~)")
DIRECTIVE = re.compile(r"^\s*<!--\s*test:\s*(?P<word>[\w-]*)\s*(?:\((?P<words>.*)\))?\s*-->\s*$")
ANY_DIRECTIVE = re.compile(r"^\s*<!--\s*tests?\b\s*:?")
COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
FUNCTION = re.compile(r"^(?!(?:if|for|while|switch|else|do|return|auto \w+ =)\b)"
                      r"[\w:][\w:<>,&*\s]*\s[&*]?\w+\([^;]*\)\s*(?:const|noexcept|override|\s)*\{\s*$",
                      re.MULTILINE)


@dataclasses.dataclass
class Block:
    """One fenced block; `line` is that of its opening fence, and counts from 1."""

    path: str
    line: int
    language: str
    text: str
    directive: str = ""
    words: str = ""


@dataclasses.dataclass
class Unit:
    """A block and those that continue it."""

    blocks: list[Block]

    @property
    def first(self) -> Block:
        return self.blocks[0]

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.blocks)

    @property
    def code(self) -> str:
        return COMMENT_OR_STRING.sub(" ", self.text)

    @property
    def name(self) -> str:
        stem = re.sub(r"\W+", "_", str(pathlib.PurePosixPath(self.first.path).with_suffix("")))
        return f"{stem}_L{self.first.line}"

    @property
    def is_program(self) -> bool:
        return re.search(r"\bint\s+main\s*\(", self.code) is not None

    @property
    def is_coroutine(self) -> bool:
        return re.search(r"\bco_(await|return|yield)\b", self.code) is not None

    @property
    def is_declarations(self) -> bool:
        if self.first.directive == "run":
            return False
        return self.first.directive == "declarations" or FUNCTION.search(self.code) is not None

    @property
    def is_wrong(self) -> bool:
        return self.first.directive == "wrong"

    @property
    def is_run(self) -> bool:
        if self.is_program:
            return self.first.directive not in ("compile", "wrong")
        return self.first.directive == "run"


def parse(path: str, text: str) -> tuple[list[Block], list[str]]:
    """The blocks of one file, and what is wrong with it."""
    blocks: list[Block] = []
    errors: list[str] = []
    directive: re.Match[str] | None = None
    directive_line = 0
    lines = text.splitlines()

    def error(line: int, message: str) -> None:
        errors.append(f"{path}:{line}: {message}")

    def drop_directive() -> None:
        nonlocal directive
        if directive:
            error(directive_line, "the test comment stands directly before no code block")
        directive = None

    at = 0
    while at < len(lines):
        line, number = lines[at], at + 1
        at += 1
        opening = FENCE.match(line)
        if not opening:
            if QUOTED_FENCE.match(line):
                error(number, "a code block in a quotation is not tested; take it out of there")
            if ANY_DIRECTIVE.match(line):
                drop_directive()
                directive, directive_line = DIRECTIVE.match(line), number
                if not directive:
                    error(number, "cannot read this test comment; see scripts/docs_blocks.py")
            elif line.strip():
                drop_directive()
            continue

        fence, indent = opening["fence"], len(opening["indent"])
        body = []
        while at < len(lines) and not re.fullmatch(
            rf"\s*{re.escape(fence[0])}{{{len(fence)},}}\s*", lines[at]
        ):
            cut = lines[at][:indent]
            body.append(cut.lstrip() + lines[at][indent:] + "\n")
            at += 1
        if at == len(lines):
            error(number, "the code block is never closed")
        at += 1

        used, directive = directive, None
        tag = opening["info"].split()[0] if opening["info"] else ""
        if tag not in LANGUAGES:
            error(number, f"'{tag}' is no tested language: cpp, sh, bash, python or text expected")
            continue
        block = Block(path, number, LANGUAGES[tag], "".join(body))
        if used:
            block.directive, block.words = used["word"], (used["words"] or "").strip()
        errors += check_directive(block)
        blocks.append(block)

    drop_directive()
    return blocks, errors


def check_directive(block: Block) -> list[str]:
    word, where = block.directive, f"{block.path}:{block.line}: "
    if not word:
        return []
    if word not in DIRECTIVES[block.language]:
        return [where + f"'test: {word}' says nothing about a {block.language} block"]
    if bool(block.words) != (word in TAKES_WORDS):
        wanted = f"({TAKES_WORDS[word]})" if word in TAKES_WORDS else "nothing"
        return [where + f"'test: {word}' is followed by {wanted}"]
    if word == "wrong" and "wrong" not in block.text.lower():
        return [where + "code shown as a mistake has to say 'wrong' to whoever copies it"]
    return []


def join(blocks: list[Block]) -> tuple[list[Unit], list[str]]:
    """Units of the blocks of one file, in their order; text blocks are left out."""
    units: list[Unit] = []
    errors: list[str] = []
    for block in blocks:
        if block.language == "text":
            continue
        if block.directive != "continue":
            units.append(Unit([block]))
            continue
        before = next((u for u in reversed(units) if u.first.language == block.language), None)
        if before is None or (block.language == "sh" and before.first.directive == "ci"):
            errors.append(f"{block.path}:{block.line}: there is no block to continue")
        else:
            before.blocks.append(block)
    return units, errors


def check_ci(unit: Unit, root: pathlib.Path) -> list[str]:
    block = unit.first
    stages = re.findall(r"^stage (\S+) (.+)$", (root / ".ci/run").read_text(), re.MULTILINE)
    recipes = re.findall(r"^\t@?(.+)$", (root / "Makefile").read_text(), re.MULTILINE)
    known = {command for _, command in stages} | set(recipes) | {"bash .ci/run"}
    errors = []
    if block.words not in {name for name, _ in stages}:
        errors.append(f"{block.path}:{block.line}: .ci/run has no stage '{block.words}'")
    for number, line in enumerate(block.text.splitlines(), block.line + 1):
        command = re.sub(r"(^|\s)#.*", "", line).strip()
        if command and command not in known:
            errors.append(f"{block.path}:{number}: neither .ci/run nor Makefile runs '{command}'")
    return errors


def documents(root: pathlib.Path) -> list[pathlib.Path]:
    readme = root / "README.md"
    return ([readme] if readme.exists() else []) + sorted((root / "docs").rglob("*.md"))


def collect(root: pathlib.Path) -> tuple[list[Unit], list[str]]:
    units: list[Unit] = []
    errors: list[str] = []
    for document in documents(root):
        path = document.relative_to(root).as_posix()
        blocks, wrong = parse(path, document.read_text(encoding="utf-8"))
        errors += wrong
        joined, wrong = join(blocks)
        errors += wrong
        for unit in joined:
            if unit.first.directive == "ci":
                errors += check_ci(unit, root)
        units += joined
    return units, errors


def is_include(line: str) -> bool:
    return re.match(r"\s*#\s*include\b", line) is not None


def numbered_lines(unit: Unit):
    for block in unit.blocks:
        yield from enumerate(block.text.splitlines(), block.line + 1)


def place(number: int, path: str) -> str:
    """Makes the compiler speak of the document instead of the generated file."""
    return f'#line {number} "{path}"\n'


def includes(unit: Unit) -> str:
    path = unit.first.path
    return "".join(place(n, path) + line + "\n" for n, line in numbered_lines(unit) if is_include(line))


def body(unit: Unit) -> str:
    out, expected = "", -1
    for number, line in numbered_lines(unit):
        if is_include(line):
            continue
        if number != expected:
            out += place(number, unit.first.path)
        out += line + "\n"
        expected = number + 1
    return out


def program_source(unit: Unit) -> str:
    out = ""
    for block in unit.blocks:
        out += place(block.line + 1, block.path) + block.text
    return out


def signature(unit: Unit) -> str:
    return "asio::awaitable<void> fragment()" if unit.is_coroutine else "int fragment()"


def fragment_source(unit: Unit) -> str:
    if unit.is_declarations:
        return f"namespace {unit.name} {{\n{body(unit)}}}\n"
    end = "co_return;" if unit.is_coroutine else "return 0;"
    start = f"namespace {unit.name} {{\n{signature(unit)};\n{signature(unit)} {{\n"
    return start + body(unit) + end + "\n}\n}\n"


def fragments_source(units: list[Unit]) -> str:
    """One translation unit for the fragments of a document, since each costs a read of Asio."""
    return (
        '#include "docs/preamble.hpp"\n\n'
        + "".join(map(includes, units))
        + "\n"
        + "\n".join(map(fragment_source, units))
    )


def main_source(units: list[Unit]) -> str:
    """A program that runs the fragments that are to be run."""
    run = [u for u in units if u.is_run]
    calls = "".join(f'    ok &= run("{u.first.path}:{u.first.line}", {u.name}::fragment);\n' for u in run)
    return (
        '#include "docs/run.hpp"\n\n'
        + "".join(f"namespace {u.name} {{\n{signature(u)};\n}}\n" for u in run)
        + f"\nint main() {{\n    bool ok = true;\n{calls}    return ok ? 0 : 1;\n}}\n"
    )


def write(path: pathlib.Path, text: str) -> str:
    """Leaves an unchanged file untouched, so that it is not built again."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
    return path.as_posix()


def generate(root: pathlib.Path, out: pathlib.Path) -> list[str]:
    units, errors = collect(root)
    out.mkdir(parents=True, exist_ok=True)
    cpp = [u for u in units if u.first.language == "cpp"]
    programs = [u for u in cpp if u.is_program]
    fragments = [u for u in cpp if not u.is_program]
    scripts = [u for u in units if u.first.language == "sh" and u.first.directive != "ci"]

    sources, wrong = [], []
    for path in dict.fromkeys(u.first.path for u in fragments):
        here = [u for u in fragments if u.first.path == path]
        stem = here[0].name.rpartition("_L")[0]
        right_here = [u for u in here if not u.is_wrong]
        wrong_here = [u for u in here if u.is_wrong]
        if right_here:
            sources.append(write(out / f"{stem}_fragments.cpp", fragments_source(right_here)))
        if wrong_here:
            wrong.append(write(out / f"{stem}_wrong.cpp", fragments_source(wrong_here)))
    sources += wrong
    if fragments:
        sources.append(write(out / "main.cpp", main_source(fragments)))
    for unit in programs:
        source = write(out / f"{unit.name}.cpp", program_source(unit))
        if unit.is_wrong:
            wrong.append(source)
    for unit in scripts:
        write(out / f"{unit.name}.sh", "set -euo pipefail\n" + unit.text)

    def cmake_list(name: str, values: list[str]) -> str:
        return f"set({name}" + "".join(f'\n    "{v}"' for v in values) + "\n)\n"

    write(
        out / "blocks.cmake",
        cmake_list("docs_fragment_sources", sources)
        + cmake_list("docs_wrong_sources", wrong)
        + cmake_list("docs_programs_to_run", [u.name for u in programs if u.is_run])
        + cmake_list("docs_programs_to_build", [u.name for u in programs if not u.is_run])
        + cmake_list("docs_scripts", [u.name for u in scripts]),
    )
    return errors


def copy_tree(root: pathlib.Path, target: pathlib.Path) -> None:
    """What a clone would hold, changes that are not committed included; no build."""
    git = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=False,
    ) if shutil.which("git") and (root / ".git").exists() else None
    if git is None or git.returncode != 0:
        ignored = shutil.ignore_patterns(".git", "build", "__pycache__")
        shutil.copytree(root, target, symlinks=True, ignore=ignored)
        return
    for name in filter(None, os.fsdecode(git.stdout).split("\0")):
        source = root / name
        if source.is_file() or source.is_symlink():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name, follow_symlinks=False)


def run_script(root: pathlib.Path, script: pathlib.Path, binaries: pathlib.Path | None) -> int:
    with tempfile.TemporaryDirectory(prefix="rondo-docs-") as scratch:
        tree = pathlib.Path(scratch) / "rondo"
        copy_tree(root, tree)
        if binaries and binaries.is_dir():
            shutil.copytree(binaries, tree / "build/release/bin")
        process = subprocess.Popen(
            ["bash", str(script.resolve())], cwd=tree, stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return process.wait()
        finally:
            try:  # what the script left in the background
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def run_python(root: pathlib.Path) -> list[str]:
    """Runs each program by itself, with an error for each that fails."""
    units, errors = collect(root)
    for unit in (u for u in units if u.first.language == "python"):
        # Blank lines before it, so that a traceback has the line of the document.
        code = "\n" * unit.first.line + unit.text
        with tempfile.TemporaryDirectory(prefix="rondo-docs-") as scratch:
            program = pathlib.Path(scratch) / "program.py"
            program.write_text(code, encoding="utf-8")
            if subprocess.run([sys.executable, program.name], cwd=scratch, check=False).returncode:
                errors.append(f"{unit.first.path}:{unit.first.line}: the program failed")
    return errors


def main(arguments: list[str]) -> int:
    match arguments:
        case ["check", root]:
            errors = collect(pathlib.Path(root))[1]
        case ["generate", root, out]:
            errors = generate(pathlib.Path(root), pathlib.Path(out))
        case ["python", root]:
            errors = run_python(pathlib.Path(root))
        case ["run", root, script, *binaries] if len(binaries) <= 1:
            found = pathlib.Path(binaries[0]) if binaries else None
            return run_script(pathlib.Path(root), pathlib.Path(script), found)
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    for error in errors:
        print(error, file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
