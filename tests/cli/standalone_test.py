"""llmc compile --standalone: loader and plan in one file, which runs where nothing else is."""
import os
import pathlib
import re
import shutil
import subprocess
import unittest

from harness import GOLDEN, LLMC, LLMC_RUN, ONEDNN, TINY, CliTest, run

LOADER = pathlib.Path(LLMC).parent / "llmc-run-static"


@unittest.skipUnless(LOADER.exists(), "there are no static libraries here")
class Standalone(CliTest):
    def test_a_program_that_needs_nothing(self):
        app, plan = self.compile(TINY, "app", "--standalone", "--context", 64), self.compile(TINY, "m.plan", "--context", 64)
        self.assertTrue(os.access(app, os.X_OK))
        self.assertEqual(self.compile(TINY, "again", "--standalone", "--context", 64).read_bytes(), app.read_bytes())
        page = 4096
        begin = -(-LOADER.stat().st_size // page) * page
        self.assertEqual(app.read_bytes()[begin:begin + plan.stat().st_size], plan.read_bytes())
        self.assertEqual(app.stat().st_size, begin + plan.stat().st_size + 32)
        said = self.ok(LLMC, "compile", TINY, "-o", self.folder / "said", "--standalone", "--context", 64, "--target-cpu", "native").stderr
        self.assertIn(f"said: {app.stat().st_size} bytes", said)
        asked = ("-p", "7+12=", "-n", 3, "--temp", 0)
        self.assertEqual(self.ok(app, *asked).stdout, self.ok(LLMC_RUN, plan, *asked).stdout)
        self.ok(app, "--selftest")
        self.ok(LLMC_RUN, app, "--selftest")
        self.assertEqual(self.ok(LLMC, "inspect", app).stdout, self.ok(LLMC, "inspect", plan).stdout)
        self.ok(LLMC, "inspect", app, "--verify")
        self.fails(2, app, plan, *asked, says="is too much")
        if shutil.which("readelf"):
            self.assertNotIn("NEEDED", run("readelf", "-d", app).stdout)

    @unittest.skipUnless(os.geteuid() == 0, "chroot is root's")
    def test_in_an_empty_root_without_proc(self):
        app = self.compile(TINY, "app", "--standalone", "--context", 64)
        root = self.folder / "root"
        root.mkdir()
        shutil.copy(app, root / "app")
        result = subprocess.run(["/app", "-p", "7+12=", "-n", "3", "--temp", "0"], capture_output=True, text=True, timeout=100,
                                preexec_fn=lambda: (os.chroot(root), os.chdir("/")))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.strip(), "19")

    def test_damage_is_found(self):
        app = self.compile(GOLDEN / "llama-gqa2", "app", "--standalone")
        bytes_ = app.read_bytes()
        plan = self.compile(GOLDEN / "llama-gqa2").stat().st_size
        for at in (-1, -20, -plan // 2):  # the plan is at the end
            damaged = bytearray(bytes_)
            damaged[at] ^= 1
            app.write_bytes(damaged)
            self.assertNotEqual(run(LLMC, "inspect", app, "--verify").returncode, 0, at)
        app.write_bytes(bytes_[:-5])
        self.assertNotEqual(run(app, "--selftest").returncode, 0)

    @unittest.skipUnless(ONEDNN, "needs the oneDNN library")
    def test_steps_are_refused(self):
        self.fails(1, LLMC, "compile", GOLDEN / "llama-gqa2", "--backend", "onednn", "--standalone", "-o", self.folder / "x", says="standalone")
        self.assertFalse((self.folder / "x").exists())


if __name__ == "__main__":
    unittest.main()
