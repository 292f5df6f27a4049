"""opt's options, prints and dumps without a schedule, and the progress line."""
import json
import os
import pty
import re
import select
import subprocess
import unittest

from harness import GOLDEN, LLMC, TINY, CliTest

MODEL = GOLDEN / "llama-deep"


class OptTest(CliTest):
    def import_text(self):
        return self.ok(LLMC, "compile", MODEL, "--stop-after", "import").stdout

    def test_standard_input(self):
        text = self.import_text()
        self.assertEqual(self.ok(LLMC, "opt", input=text).stdout, text)
        self.assertEqual(self.ok(LLMC, "opt", "-", "--passes", "canonicalize,absorb-mla,fuse-qkv", input=text).stdout,
                         self.ok(LLMC, "compile", MODEL, "--stop-after", "fuse-qkv").stdout)
        self.fails(1, LLMC, "opt", input="module", says="<stdin>:1")

    def test_list_passes(self):
        text = self.ok(LLMC, "opt", "--list-passes").stdout
        self.assertRegex(text, r"(?m)^  fuse-qkv +optional +exact +query, key and value")
        rows = json.loads(self.ok(LLMC, "opt", "--list-passes", "--json").stdout)["passes"]
        self.assertEqual(rows[0]["pass"], "canonicalize")
        self.assertEqual([row["pass"] for row in rows if row["numbers"] == "rounds"], ["quantize-activations"])

    def test_stats(self):
        rows = json.loads(self.ok(LLMC, "opt", "--stats", "--json", "--passes", "canonicalize,fuse-qkv,fuse-gate-up", input=self.import_text()).stdout)["stats"]
        self.assertEqual([row["behind"] for row in rows], ["input", "canonicalize", "fuse-qkv", "fuse-gate-up"])
        layers = json.loads((MODEL / "config.json").read_text())["num_hidden_layers"]
        self.assertEqual(rows[1]["ops"] - rows[2]["ops"], 2 * layers)
        self.assertEqual(rows[2]["ops"] - rows[3]["ops"], layers)
        self.assertEqual(rows[3]["consts"] - rows[1]["consts"], 2 * layers)
        self.assertRegex(self.ok(LLMC, "opt", "--stats", input=self.import_text()).stdout, r"^stats\n  behind +functions +ops")
        self.fails(2, LLMC, "opt", "--json", input="", says="--json")

    def test_each_pass(self):
        result = self.ok(LLMC, "opt", "--verify-each", "--time-passes", "--passes", "canonicalize,fuse-qkv,fuse-qkv", input=self.import_text())
        self.assertEqual(result.stderr.count("fuse-qkv: changed, verifies and reads back\n"), 1)
        self.assertEqual(result.stderr.count("fuse-qkv: no change, verifies and reads back\n"), 1)
        self.assertEqual(len(re.findall(r"(?m)^fuse-qkv +\d+\.\d+ ms", result.stderr)), 2)
        self.assertNotIn("verifies", result.stdout)

    def test_no_schedule(self):
        whole = self.ok(LLMC, "compile", MODEL, "--stop-after", "plan-memory").stdout
        self.assertIn("step = ", whole)
        bare = self.ok(LLMC, "opt", "--no-schedule", input=whole).stdout
        for pattern in (r" step = ", r" fn = ", r" over = ", r"\] (shared|private|none)\b", r" @\d"):
            self.assertRegex(whole, pattern)
            self.assertNotRegex(bare, pattern)
        self.assertIn("{split = [", bare)
        self.assertLess(len(bare), 0.7 * len(whole))
        folder = self.folder / "stages"
        result = self.ok(LLMC, "compile", TINY, "--no-schedule", "--print-after", "plan-memory", "--dump-ir", folder, "--stop-after", "plan-memory", "-o", self.folder / "out.ir")
        self.assertNotIn("step = ", result.stderr)
        dump = next(folder.glob("*-plan-memory.ir"))
        self.assertNotIn("step = ", dump.read_text())
        self.assertIn("step = ", (self.folder / "out.ir").read_text())
        self.fails(1, LLMC, "compile", TINY, "--from", dump, "-o", self.folder / "m.plan", says="schedule")


class ProgressTest(CliTest):
    def on_a_terminal(self, *command):
        """What a program writes to a terminal as stderr, and to stdout."""
        leader, follower = pty.openpty()
        self.addCleanup(os.close, leader)
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=follower)
        os.close(follower)
        shown = b""
        while True:
            if select.select([leader], [], [], 100)[0] == []:
                self.fail("nothing for 100 s")
            try:
                piece = os.read(leader, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            shown += piece
        stdout = process.stdout.read()
        process.stdout.close()
        return process.wait(timeout=100), shown.decode(), stdout.decode()

    def test_a_line_that_goes_away(self):
        status, shown, stdout = self.on_a_terminal(LLMC, "compile", TINY, "-o", self.folder / "m.plan", "--target-cpu", "native")
        self.assertEqual((status, stdout), (0, ""))
        self.assertRegex(shown, r"\r\x1b\[Kweights      \[=+>? *\] +\d+ %  \d+\.\d of \d+\.\d MiB")
        self.assertIn("code ", shown)
        self.assertRegex(shown, r"\r\x1b\[K\S+m\.plan: \d+ bytes\r\n$")  # cleared in front of the result

    def test_an_error_has_a_line_of_its_own(self):
        (self.folder / "m.plan").mkdir()
        status, shown, _ = self.on_a_terminal(LLMC, "compile", TINY, "-o", self.folder / "m.plan", "--target-cpu", "native")
        self.assertEqual(status, 1)
        last = shown.rstrip("\r\n").split("\r\n")[-1]
        self.assertRegex(last.split("\x1b[K")[-1], r"^\S*m\.plan: ")

    def test_stdout_is_untouched_and_a_file_has_none(self):
        status, shown, stdout = self.on_a_terminal(LLMC, "compile", TINY, "--stop-after", "fuse-qkv")
        self.assertEqual(status, 0)
        quiet = self.ok(LLMC, "compile", TINY, "--stop-after", "fuse-qkv")
        self.assertEqual(stdout, quiet.stdout)
        self.assertNotIn("\x1b", quiet.stderr)
        self.assertNotIn("\r", self.ok(LLMC, "compile", TINY, "-o", self.folder / "m.plan", "--target-cpu", "native").stderr)


if __name__ == "__main__":
    unittest.main()
