#!/usr/bin/env python3
"""Tests of the program llmc-run. Usage: llmc_run_test.py LLMC_RUN PLAN_ASSEMBLE MODEL.plan.txt BUILD_TYPE"""
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

RUN, ASSEMBLE, TEXT, BUILD = sys.argv[1:5]
SANITIZED = BUILD != "Release"  # the sanitizers' presets: size and memory mean nothing there


def run(*args, **options):
    if "input" not in options:
        options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([RUN, *map(str, args)], capture_output=True, text=True, timeout=100, **options)


class LlmcRun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="llmc-run-"))
        cls.plan = cls.folder / "hash.plan"
        subprocess.run([ASSEMBLE, TEXT, cls.plan], check=True)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def test_is_small_and_links_nothing_large(self):
        if SANITIZED or not shutil.which("strip"):
            self.skipTest("needs a release build and strip")
        stripped = self.folder / "stripped"
        subprocess.run(["strip", "-o", stripped, RUN], check=True)
        self.assertLess(stripped.stat().st_size, 1 << 20)
        needed = subprocess.run(["readelf", "-d", RUN], capture_output=True, text=True, check=True).stdout.lower()
        for name in ("llvm", "dnnl", "gomp", "libomp", "iomp", "crypto", "fmt"):
            self.assertNotIn(name, needed)

    def test_memory_is_weights_caches_and_a_little(self):
        if SANITIZED:
            self.skipTest("needs a release build")
        text = pathlib.Path(TEXT).read_text()
        weights = self.folder / "weights"
        weights.write_bytes(bytes(256) + os.urandom(16 << 20))
        begin, end = text.index("section weights"), text.index("section code")
        text = text[:begin] + f'section weights file "{weights}"\n' + text[end:]
        text = text.replace("states 192", f"states {1 << 34}")  # reserved, hardly touched
        large = self.folder / "large.plan"
        (self.folder / "large.txt").write_text(text)
        subprocess.run([ASSEMBLE, self.folder / "large.txt", large], check=True, cwd="/")
        result = run(large, "--bench", "-p", 8, "-n", 8, "-r", 1, "-t", 2, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertLess(json.loads(result.stdout)["peak_rss_bytes"], (16 << 20) + (8 << 20))

    def test_any_thread_count_gives_the_same(self):
        command = (self.plan, "--tokens", "1,2,3", "-n", 40, "--print-tokens", "--ignore-eos", "-t")
        want = run(*command, 1).stdout
        self.assertEqual(want.count(","), 39)
        for threads in (2, 3, 4, 7):
            for _ in range(5):
                self.assertEqual(run(*command, threads).stdout, want)

    def test_without_the_step_library_the_message_says_what_to_do(self):
        text = self.folder / "steps.txt"
        text.write_text('plan 1.1\nmodel "m"\nbackend "onednn"\nabi 1\nvocab 4\ncontext 8\nchunk 1\n'
                        'phase decode 1 1\n  step kernel "embed" words 0\nself_test none 0 0 0\n')
        subprocess.run([ASSEMBLE, text, self.folder / "steps.plan"], check=True)
        alone = self.folder / "alone"
        alone.mkdir()
        shutil.copy(RUN, alone)
        environment = {k: v for k, v in os.environ.items() if k != "LLMC_ONEDNN_LIBRARY"}
        for variable in ({}, {"LLMC_ONEDNN_LIBRARY": "/nonexistent/a.so"}):
            result = subprocess.run([alone / pathlib.Path(RUN).name, self.folder / "steps.plan", "--tokens", "1", "--print-tokens"],
                                    capture_output=True, text=True, timeout=100, env=environment | variable)
            self.assertEqual(result.returncode, 1)
            self.assertEqual(result.stdout, "")
            for part in ("steps.plan: phase decode, step 0 (kernel) needs libllmc_onednn.so, which isn't there",
                         "/nonexistent/a.so" if variable else f"{alone}/libllmc_onednn.so", "where oneDNN is installed", "LLMC_ONEDNN_LIBRARY"):
                self.assertIn(part, result.stderr)

    def test_runs_where_it_can_write_nothing(self):
        locked = self.folder / "locked"
        locked.mkdir()
        shutil.copy(self.plan, locked / "a.plan")
        (locked / "a.plan").chmod(0o444)
        locked.chmod(0o555)
        try:
            nowhere = {"HOME": "/nonexistent", "TMPDIR": "/nonexistent"}
            result = run(locked / "a.plan", "--tokens", "1", "-n", 3, "--print-tokens", env=nowhere, cwd="/")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(os.listdir(locked), ["a.plan"])
        finally:
            locked.chmod(0o755)

    def test_a_full_stdout_is_an_error(self):
        with open("/dev/full", "w") as full:
            command = [RUN, self.plan, "--tokens", "1", "-n", "3", "--print-tokens"]
            result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(result.returncode, 1)
        self.assertIn("stdout: can't write: No space left", result.stderr)

    def test_logits_that_do_not_fit_leave_nothing(self):
        before = sorted(os.listdir(self.folder))
        limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))}
        out = self.folder / "out.npy"
        result = run(self.plan, "--tokens", "1,2,3,4,5,6,7", "--logits", out, "--all-positions", **limit)
        self.assertEqual(result.returncode, 1)
        self.assertIn("out.npy: can't write: File too large", result.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_a_plan_that_changes_while_it_runs_is_noticed(self):
        # Prompts of one id take microseconds; the long one keeps the program busy until the file is cut under it.
        for change in ("cut", "touch"):
            plan = self.folder / f"{change}.plan"
            shutil.copy(self.plan, plan)
            command = [RUN, plan, "--bench", "-p", "8", "-n", "40", "-r", "1000", "-t", "1"]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for line in process.stderr:
                if line.startswith("2/"):
                    break
            if change == "cut":
                os.truncate(plan, 0)
            else:
                os.utime(plan, ns=(1, 1))
            drain = threading.Thread(target=process.stdout.read)
            drain.start()
            rest = process.stderr.read()
            drain.join()
            if change == "cut":
                self.assertEqual(process.wait(timeout=100), 1, rest[-200:])
                self.assertIn("changed while it was in use", rest)
            else:  # a new time alone is no change
                self.assertEqual(process.wait(timeout=100), 0, rest[-200:])

    def test_cut_and_flipped_plans_never_crash(self):
        good = self.plan.read_bytes()
        damaged = self.folder / "damaged.plan"
        want = run(self.plan, "--tokens", "1", "-n", 3, "--print-tokens").stdout
        for i in range(40):
            damaged.write_bytes(good[: len(good) * i // 40])
            self.assertEqual(run(damaged, "--tokens", "1", "--print-tokens").returncode, 1)
        for i in range(60):
            at = len(good) * i // 60 + i % 7
            damaged.write_bytes(good[:at] + bytes([good[at] ^ 1 << i % 8]) + good[at + 1 :])
            result = run(damaged, "--tokens", "1", "-n", 3, "--print-tokens")
            self.assertIn(result.returncode, (0, 1), (at, result.stderr))
            if result.returncode == 0 and not 4096 <= at < 4096 + 256:  # the weights
                self.assertEqual(result.stdout, want)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
