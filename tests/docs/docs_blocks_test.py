#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tests of scripts/docs_blocks.py."""

import pathlib
import sys
import tempfile
import textwrap
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import docs_blocks  # noqa: E402


def parse(text):
    return docs_blocks.parse("a.md", textwrap.dedent(text))


def units(text):
    return docs_blocks.join(parse(text)[0])[0]


class Tree:
    """A project with one README, whose CI has the stages build and test."""

    def __init__(self, readme):
        self.scratch = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.scratch.name) / "tree"
        self.out = pathlib.Path(self.scratch.name) / "out"
        (self.root / ".ci").mkdir(parents=True)
        (self.root / ".ci/run").write_text("stage build make build\nstage test make test\n")
        (self.root / "Makefile").write_text("demo:\n\t@build/release/bin/rondo demo\n")
        (self.root / "README.md").write_text(textwrap.dedent(readme))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.scratch.cleanup()

    def generate(self):
        return docs_blocks.generate(self.root, self.out)

    def run(self, name):
        return docs_blocks.run_script(self.root, self.out / name, self.root / "bin")


class Parsing(unittest.TestCase):
    def test_a_block_knows_its_line_and_its_text(self):
        blocks, errors = parse("one\n\n```cpp\nint a;\n\nint b;\n```\n")
        self.assertEqual(errors, [])
        self.assertEqual((blocks[0].line, blocks[0].text), (3, "int a;\n\nint b;\n"))

    def test_a_block_in_a_list_loses_the_indentation_of_its_fence(self):
        blocks, _ = docs_blocks.parse("a.md", "- x\n\n  ```cpp\n  if (x)\n\n      y();\n  ```\n")
        self.assertEqual(blocks[0].text, "if (x)\n\n    y();\n")

    def test_a_longer_fence_may_hold_a_shorter_one(self):
        blocks, errors = parse("````text\n```\n````\n~~~sh\n```\n~~~\n")
        self.assertEqual(errors, [])
        self.assertEqual([b.text for b in blocks], ["```\n", "```\n"])

    def test_bash_is_sh(self):
        self.assertEqual(parse("```bash\ntrue\n```\n")[0][0].language, "sh")

    def test_every_other_tag_is_an_error(self):
        for tag in ("", "c++", "py", "json"):
            with self.subTest(tag=tag):
                blocks, errors = parse(f"```{tag}\nx\n```\n")
                self.assertEqual(blocks, [])
                self.assertIn("a.md:1:", errors[0])
                self.assertIn(f"'{tag}'", errors[0])

    def test_a_block_that_is_never_closed_is_an_error(self):
        self.assertIn("never closed", parse("```cpp\nint a;\n")[1][0])

    def test_a_block_in_a_quotation_is_an_error(self):
        self.assertIn("quotation", parse("> ```cpp\n> int a;\n> ```\n")[1][0])


class Directives(unittest.TestCase):
    def test_a_directive_belongs_to_the_next_block_only(self):
        blocks, errors = parse(
            "<!-- test: run -->\n```cpp\na();\n```\n```cpp\nb();\n```\n"
        )
        self.assertEqual(errors, [])
        self.assertEqual([b.directive for b in blocks], ["run", ""])

    def test_an_empty_line_may_stand_between(self):
        self.assertEqual(parse("<!-- test: run -->\n\n```cpp\na();\n```\n")[0][0].directive, "run")

    def test_a_directive_before_no_block_is_an_error(self):
        for text in ("<!-- test: run -->\nprose\n```cpp\na();\n```\n", "<!-- test: run -->\n"):
            with self.subTest(text=text):
                self.assertIn("no code block", parse(text)[1][0])

    def test_what_cannot_be_read_is_an_error(self):
        for comment in ("<!-- test run -->", "<!-- tests: run -->", "<!-- test: run it -->"):
            with self.subTest(comment=comment):
                self.assertIn("cannot read", parse(comment + "\n```cpp\na();\n```\n")[1][0])

    def test_a_directive_must_suit_the_language(self):
        for directive, tag in (("run", "sh"), ("ci (test)", "cpp"), ("compile", "text"),
                               ("skip", "cpp")):
            with self.subTest(directive=directive, tag=tag):
                errors = parse(f"<!-- test: {directive} -->\n```{tag}\nx\n```\n")[1]
                self.assertIn("says nothing about", errors[0])

    def test_words_are_given_exactly_where_they_are_needed(self):
        for directive, tag in (("ci", "sh"), ("wrong", "cpp"), ("run (now)", "cpp")):
            with self.subTest(directive=directive):
                errors = parse(f"<!-- test: {directive} -->\n```{tag}\nwrong\n```\n")[1]
                self.assertIn("is followed by", errors[0])

    def test_wrong_code_says_so_itself(self):
        start = "<!-- test: wrong (dangles) -->\n```cpp\n"
        self.assertIn("'wrong'", parse(start + "f();\n```\n")[1][0])
        self.assertEqual(parse(start + "f();  // WRONG: dangles\n```\n")[1], [])


class Units(unittest.TestCase):
    def test_continue_appends_to_the_block_before_of_that_language(self):
        joined = units(
            """\
            ```cpp
            a();
            ```
            ```sh
            true
            ```
            <!-- test: continue -->
            ```cpp
            b();
            ```
            """
        )
        self.assertEqual([u.text for u in joined], ["a();\nb();\n", "true\n"])

    def test_continue_without_a_block_before_is_an_error(self):
        blocks, _ = parse("<!-- test: continue -->\n```cpp\na();\n```\n")
        self.assertIn("no block to continue", docs_blocks.join(blocks)[1][0])

    def test_a_program_has_a_main_in_its_code(self):
        self.assertTrue(units("```cpp\nint main() {}\n```\n")[0].is_program)
        self.assertFalse(units("```cpp\n// int main() {}\n```\n")[0].is_program)

    def test_programs_are_run_and_fragments_are_not_unless_told(self):
        program, fragment = "```cpp\nint main() {}\n```\n", "```cpp\na();\n```\n"
        self.assertTrue(units(program)[0].is_run)
        self.assertFalse(units("<!-- test: compile -->\n" + program)[0].is_run)
        self.assertFalse(units(fragment)[0].is_run)
        self.assertTrue(units("<!-- test: run -->\n" + fragment)[0].is_run)

    def test_a_line_that_defines_a_function_makes_declarations(self):
        for code in ("asio::awaitable<void> f(int a) {", "void f(std::span<const float> s) noexcept {",
                     "std::vector<int>& f() {"):
            with self.subTest(code=code):
                self.assertTrue(units(f"```cpp\n{code}\n}}\n```\n")[0].is_declarations)
        for code in ("if (auto e = f(x)) {", "for (;;) {", "auto f = [](int a) {", "a.each([] {",
                     "while (co_await next()) {", "else if (f(x)) {", "    void f() {"):
            with self.subTest(code=code):
                self.assertFalse(units(f"```cpp\n{code}\n}}\n```\n")[0].is_declarations)


class Sources(unittest.TestCase):
    def test_includes_come_first_and_the_rest_goes_into_a_coroutine(self):
        with Tree("x\n```cpp\n#include <span>\nco_await f();\n```\n") as tree:
            self.assertEqual(tree.generate(), [])
            text = (tree.out / "README_fragments.cpp").read_text()
        self.assertLess(text.index("#include <span>"), text.index("namespace README_L2"))
        self.assertIn("asio::awaitable<void> fragment() {", text)
        self.assertIn('#line 4 "README.md"\nco_await f();\nco_return;\n', text)

    def test_without_co_await_a_fragment_is_a_function(self):
        with Tree("```cpp\nif (!s) return fail(s.error());  // co_await\n```\n") as tree:
            tree.generate()
            text = (tree.out / "README_fragments.cpp").read_text()
        self.assertIn("int fragment() {", text)
        self.assertIn("return 0;\n", text)

    def test_only_fragments_to_be_run_are_called(self):
        with Tree("```cpp\na();\n```\n<!-- test: run -->\n```cpp\nb();\n```\n") as tree:
            tree.generate()
            text = (tree.out / "main.cpp").read_text()
        self.assertNotIn("README_L1::", text)
        self.assertIn('run("README.md:5", README_L5::fragment)', text)

    def test_wrong_code_is_built_apart_from_the_rest(self):
        block = "<!-- test: wrong (dangles) -->\n```cpp\nf();  // wrong\n```\n"
        with Tree("```cpp\na();\n```\n" + block) as tree:
            tree.generate()
            self.assertNotIn("f();", (tree.out / "README_fragments.cpp").read_text())
            self.assertIn("f();", (tree.out / "README_wrong.cpp").read_text())
            text = (tree.out / "blocks.cmake").read_text()
        self.assertRegex(text, r'docs_wrong_sources\n    ".*/README_wrong.cpp"\n\)')

    def test_what_is_to_be_built_is_listed_for_cmake(self):
        with Tree("```cpp\nint main() {}\n```\n```sh\ntrue\n```\n") as tree:
            tree.generate()
            text = (tree.out / "blocks.cmake").read_text()
            self.assertTrue((tree.out / "README_L1.cpp").exists())
        self.assertIn('docs_programs_to_run\n    "README_L1"', text)
        self.assertIn('docs_scripts\n    "README_L4"', text)

    def test_an_unchanged_source_is_left_untouched(self):
        with Tree("```cpp\na();\n```\n") as tree:
            tree.generate()
            source = tree.out / "README_fragments.cpp"
            before = source.stat().st_mtime_ns
            tree.generate()
            self.assertEqual(source.stat().st_mtime_ns, before)

    def test_documents_below_docs_count_too(self):
        with Tree("") as tree:
            (tree.root / "docs/design").mkdir(parents=True)
            (tree.root / "docs/design/ring.md").write_text("```\nx\n```\n")
            errors = docs_blocks.collect(tree.root)[1]
        self.assertIn("docs/design/ring.md:1:", errors[0])


class Shell(unittest.TestCase):
    def test_what_ci_runs_is_found_there_literally(self):
        start = "<!-- test: ci (test) -->\n```sh\n"
        with Tree(start + "make build  # once\n\nbuild/release/bin/rondo demo\n```\n") as tree:
            self.assertEqual(docs_blocks.collect(tree.root)[1], [])
        for command in ("make", "make tes", "make test all", "make tests"):
            with self.subTest(command=command), Tree(f"{start}{command}\n```\n") as tree:
                self.assertIn("README.md:3: neither", docs_blocks.collect(tree.root)[1][0])

    def test_the_stage_must_exist(self):
        with Tree("<!-- test: ci (deploy) -->\n```sh\nmake test\n```\n") as tree:
            self.assertIn("no stage 'deploy'", docs_blocks.collect(tree.root)[1][0])

    def test_a_script_runs_in_a_copy_that_has_the_programs(self):
        script = "```sh\ntest -x build/release/bin/rondo\ntest -f README.md\necho > new\n```\n"
        with Tree(script) as tree:
            (tree.root / "bin").mkdir()
            (tree.root / "bin/rondo").touch(0o755)
            tree.generate()
            self.assertEqual(tree.run("README_L1.sh"), 0)
            self.assertFalse((tree.root / "new").exists())

    def test_a_script_stops_at_the_first_command_that_fails(self):
        with Tree("```sh\nfalse\ntrue\n```\n") as tree:
            tree.generate()
            self.assertEqual(tree.run("README_L1.sh"), 1)


class Python(unittest.TestCase):
    def test_each_program_runs_and_a_failing_one_is_named(self):
        good = "```python\nx = 1\n```\n\n<!-- test: continue -->\n```python\nassert x == 1\n```\n"
        with Tree(good) as tree:
            self.assertEqual(docs_blocks.run_python(tree.root), [])
        with Tree(good + "\n```python\nraise SystemExit(1)\n```\n") as tree:
            self.assertEqual(
                docs_blocks.run_python(tree.root), ["README.md:10: the program failed"]
            )


if __name__ == "__main__":
    unittest.main()
