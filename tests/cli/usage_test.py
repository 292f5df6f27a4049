"""The command line itself: what is refused as wrong use, help, and outputs that aren't plain files."""
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import unittest

from harness import GOLDEN, LLMC, LLMC_RUN, TINY, CliTest, npy

MODEL = GOLDEN / "llama-gqa2"


class Usage(CliTest):
    def test_an_unknown_command_is_named(self):
        self.fails(2, LLMC, "compiel", MODEL, says="compiel")
        self.fails(2, LLMC_RUN, says="no plan")

    def test_numbers(self):
        for value in ("0", "-1", "1e3", "ten", "", "9223372036854775808"):
            for flag in ("--context", "--chunk"):
                self.fails(2, LLMC, "compile", MODEL, "-o", self.folder / "m.plan", flag, value, says=[flag, f'"{value}" isn\'t a number from 1 to'])
        self.assertFalse((self.folder / "m.plan").exists())

    def test_options_that_repeat_take_one_value_each(self):
        for before in (["--disable-pass", "fuse-qkv", "--disable-pass", "fuse-gate-up"], ["--allow-unknown", "a", "--allow-unknown", "b"]):
            self.ok(LLMC, "compile", *before, MODEL, "--target-cpu", "native", "-o", self.folder / "m.plan")
        text = self.ok(LLMC, "compile", "--disable-pass", "fuse-qkv", "--disable-pass", "fuse-gate-up", MODEL, "--stop-after", "fuse-add-rms-norm").stdout
        self.assertNotIn("wqkv", text)
        self.fails(2, LLMC, "compile", MODEL, "-o", self.folder / "m.plan", "--disable-pass", "fuse-qkv", "fuse-gate-up", says="fuse-gate-up")

    def test_help(self):
        self.assertIn("Usage: llmc", self.ok(LLMC, "--help").stdout)
        self.assertIn("llmc compile", self.ok(LLMC, "compile", "--help").stdout)
        self.assertIn("--print-tokens", self.ok(LLMC, "run", "--help").stdout)

    def test_run_of_a_plan_compiles_nothing(self):
        plan = self.compile(MODEL)
        for flags in (["--quantize", "q8_0"], ["--check"], ["-j", "2"], ["--backend", "reference"]):
            self.fails(2, LLMC, "run", plan, "--tokens", "1", "--print-tokens", *flags, says=[flags[0], "m.plan is a plan"])
        self.ok(LLMC, "run", plan, "--tokens", "1", "--print-tokens", "-n", 2, "--context", 8, "--chunk", 2)

    def test_a_plan_of_the_interpreter_says_how_to_run_it(self):
        plan = self.compile(MODEL, "reference.plan", "--backend", "reference")
        for program in ([LLMC_RUN], [LLMC, "run"]):
            self.fails(1, *program, plan, "--tokens", "1", "--print-tokens", says="`llmc run MODEL --backend reference` runs its model")
        self.ok(LLMC, "run", MODEL, "--backend", "reference", "--tokens", "1", "--print-tokens", "-n", 2)

    def test_json_where_there_is_none(self):
        plan = self.compile(MODEL)
        self.fails(2, LLMC_RUN, plan, "--selftest", "--json", says="--json")
        self.fails(2, LLMC_RUN, plan, "--tokens", "1", "--logits", self.folder / "x.npy", "--json", says="--json")
        for flag in ("--logits", "--perplexity"):
            self.fails(2, LLMC_RUN, plan, "--tokens", "1", flag, "", says=[flag, "a file's name"])


class Outputs(CliTest):
    def test_a_plan_does_not_go_to_stdout(self):
        self.fails(2, LLMC, "compile", MODEL, "-o", "-", cwd=self.folder, says="-o -")
        self.assertEqual(os.listdir(self.folder), [])

    def test_an_input_is_not_written_over(self):
        plan, copy = self.compile(MODEL), self.folder / "model"
        shutil.copytree(MODEL, copy)
        before = plan.read_bytes(), (copy / "config.json").read_bytes()
        (self.folder / "link").symlink_to(plan)
        self.fails(1, LLMC_RUN, plan, "--tokens", "1", "--logits", self.folder / "link", says="the output is the plan")
        self.fails(1, LLMC, "compile", copy, "--stop-after", "import", "-o", copy / "config.json", says="the output is the input")
        self.assertEqual((plan.read_bytes(), (copy / "config.json").read_bytes()), before)

    def test_links_stay_and_their_targets_are_written(self):
        """/dev/stdout is a link: a rename over it would take it from everyone."""
        plan = self.compile(MODEL)
        text, logits = self.folder / "text", self.folder / "logits"
        for target in (text, logits):
            target.write_text("old")
            (self.folder / f"to-{target.name}").symlink_to(target)
        self.ok(LLMC, "compile", MODEL, "--stop-after", "import", "-o", self.folder / "to-text")
        self.ok(LLMC_RUN, plan, "--tokens", "1,2", "--logits", self.folder / "to-logits")
        self.assertTrue(text.read_text().startswith("module @"))
        self.assertEqual(npy(logits)[1][0], 1)
        for name in ("to-text", "to-logits"):
            self.assertTrue((self.folder / name).is_symlink(), name)
        self.assertEqual(sorted(os.listdir(self.folder)), ["logits", "m.plan", "text", "to-logits", "to-text"])

    def test_pipes_are_written_in_place(self):
        plan = self.compile(MODEL)
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        for command in ([LLMC, "compile", MODEL, "--stop-after", "import", "-o", pipe], [LLMC_RUN, plan, "--tokens", "1", "--logits", pipe]):
            process = subprocess.Popen([str(c) for c in command], stderr=subprocess.DEVNULL)
            self.assertGreater(len(pathlib.Path(pipe).read_bytes()), 100)
            self.assertEqual(process.wait(timeout=100), 0)
            self.assertTrue(pipe.is_fifo())

    def test_a_full_stdout_is_an_error_everywhere(self):
        plan = self.compile(MODEL)
        for command in (["--help"], ["--version"], ["opt", "--list-passes"], ["inspect", plan], ["inspect", plan, "--ir"], ["inspect", plan, "--schedule"], ["explain", plan], ["describe", MODEL],
                        ["tokenize", TINY, "-p", "abc"], ["compile", MODEL, "--stop-after", "import"]):
            with self.subTest(command=command), open("/dev/full", "w") as full:
                result = subprocess.run([LLMC, *map(str, command)], stdout=full, stderr=subprocess.PIPE, text=True)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn("stdout", result.stderr)

    def test_stderr_may_be_full_or_closed(self):
        plan = self.compile(MODEL)
        flags = ["--target-cpu", "native", "--remarks", "--time-passes", "--print-after", "all"]
        with open("/dev/full", "w") as full:
            for i, options in enumerate(({"stderr": full}, {"preexec_fn": lambda: [os.close(fd) for fd in (0, 1, 2)]})):
                again, logits = self.folder / f"{i}.plan", self.folder / f"{i}.npy"
                self.assertEqual(subprocess.run([LLMC, "compile", MODEL, "-o", again, *flags], **options).returncode, 0)
                self.assertEqual(again.read_bytes(), plan.read_bytes())
                self.assertEqual(subprocess.run([LLMC_RUN, plan, "--tokens", "1", "--logits", logits], **options).returncode, 0)
                self.assertEqual(npy(logits)[1][0], 1)
            self.assertEqual(subprocess.run([LLMC, "describe", MODEL, "--report"], stderr=full, stdout=subprocess.DEVNULL).returncode, 0)

    def test_over_the_file_size_limit(self):
        limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))}
        for command in (["compile", MODEL, "-o", self.folder / "m.plan"], ["compile", MODEL, "--stop-after", "import", "-o", self.folder / "m.ir"],
                        ["compile", MODEL, "-o", self.folder / "m.plan", "--dump-ir", self.folder / "ir"]):
            self.fails(1, LLMC, *command, says="File too large", **limit)
        self.assertEqual([p for p in self.folder.rglob("*") if p.is_file()], [])

    def test_models_that_are_pipes(self):
        """Nothing waits for a writer."""
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        for command in ([LLMC, "compile", pipe, "-o", self.folder / "m.plan"], [LLMC, "run", pipe, "-p", "a"], [LLMC, "tokenize", pipe, "-p", "a"],
                        [LLMC, "inspect", pipe], [LLMC_RUN, pipe, "-p", "a"]):
            self.fails(1, *command, says="not a regular file")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
