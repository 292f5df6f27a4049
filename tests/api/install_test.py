"""An installed tree in an empty prefix: the examples build against it by find_package and by pkg-config and run, so do the lines of Python in
runtime/README.md; the library exports what it always did; it is small and links nothing else. Usage: install_test.py BUILD SOURCE CMAKE BUILD_TYPE"""
import array
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD, SOURCE, CMAKE, BUILD_TYPE = sys.argv[1:5]
SOURCE = pathlib.Path(SOURCE)


def run(*arguments, **options):
    result = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, timeout=300, **options)
    if result.returncode != 0:
        raise AssertionError(f"{arguments}: {result.returncode}\n{result.stdout[-2000:]}\n{result.stderr[-2000:]}")
    return result.stdout


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="llmc-install-"))
        cls.prefix = cls.folder / "prefix"
        run(CMAKE, "--install", BUILD, "--prefix", cls.prefix)
        cls.library = next(cls.prefix.glob("lib*/**/libllmc.so.1"))
        global PLAN
        PLAN = cls.folder / "tiny.plan"
        run(cls.prefix / "bin" / "llmc", "compile", SOURCE / "tests" / "data" / "tiny-qwen3", "-o", PLAN, "--context", 128)
        cls.environment = {**os.environ, "LD_LIBRARY_PATH": str(cls.library.parent)}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def logits(self, *flags):
        """The last logits by llmc-run of the installed tree."""
        out = self.folder / "out.npy"
        run(self.prefix / "bin" / "llmc-run", PLAN, *flags, "--logits", out)
        data = out.read_bytes()
        return array.array("f", data[10 + int.from_bytes(data[8:10], "little"):])

    def test_examples_by_find_package(self):
        build = self.folder / "examples"
        run(CMAKE, "-S", SOURCE / "runtime" / "examples", "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}", "-DCMAKE_BUILD_TYPE=Release")
        run(CMAKE, "--build", build)
        self.assertEqual(run(build / "complete", PLAN, input="7+12=\n", env=self.environment).strip(), "19")
        expected = self.logits("-p", "7+12=")
        rows = [line.split() for line in run(build / "logits", PLAN, "7+12=", env=self.environment).splitlines()]
        best = sorted(range(len(expected)), key=lambda i: -expected[i])[:5]
        self.assertEqual([int(row[0]) for row in rows], best)
        self.assertEqual([array.array("f", [float(row[1])])[0] for row in rows], [expected[i] for i in best])
        # The log-probability of one more token, from llmc-run's logits; a restored session gives the same again.
        scores = [float(line) for line in run(build / "score", PLAN, "7+12=", "1", "19", "1", env=self.environment).splitlines()]
        highest = max(expected)
        total = math.log(sum(math.exp(x - highest) for x in expected)) + highest
        one = int(run(build / "logits", PLAN, "7+12=", env=self.environment).split()[0])
        self.assertAlmostEqual(scores[0], expected[one] - total, places=5)
        self.assertEqual(scores[0], scores[2])
        self.assertLess(scores[1], scores[0])

    @unittest.skipUnless(shutil.which("pkg-config"), "needs pkg-config")
    def test_an_example_by_pkg_config(self):
        paths = {**self.environment, "PKG_CONFIG_PATH": str(next(self.prefix.glob("lib*/**/pkgconfig")))}
        flags = run("pkg-config", "--cflags", "--libs", "llmc", env=paths).split()
        run(os.environ.get("CC", "cc"), SOURCE / "runtime" / "examples" / "logits.c", "-o", self.folder / "logits", *flags)
        self.assertIn("\n", run(self.folder / "logits", PLAN, "7+", env=self.environment))

    def test_the_lines_of_python(self):
        page = (SOURCE / "runtime" / "README.md").read_text()
        lines = re.search(r"```python\n(.*?)```", page, re.S).group(1)
        self.assertLessEqual(len(lines.splitlines()), 12)
        script = lines.replace("model.plan", str(PLAN)).replace("libllmc.so.1", str(self.library))
        got = float(run(sys.executable, "-c", script).strip())
        self.assertEqual(array.array("f", [got])[0], self.logits("--tokens", "1,2,3")[0])

    def test_symbols_only_grow(self):
        exported = {line.split()[-1].split("@")[0] for line in run("nm", "-D", "--defined-only", self.library).splitlines()}
        exported = {name for name in exported if not re.fullmatch(r"LLMC_\d+", name)}  # versions
        self.assertEqual({name for name in exported if not name.startswith("llmc_")}, set())
        listed = set((SOURCE / "tests" / "api" / "symbols.txt").read_text().split())
        self.assertEqual(listed - exported, set(), "a function is gone")
        self.assertEqual(exported - listed, set(), "add it to tests/api/symbols.txt, for ever")

    def test_is_small_and_links_nothing_else(self):
        if BUILD_TYPE != "Release":
            self.skipTest("the sanitizers' sizes mean nothing")
        stripped = self.folder / "stripped"
        run("strip", "-o", stripped, self.library.resolve())
        self.assertLess(stripped.stat().st_size, 700 << 10)
        needed = re.findall(r"NEEDED.*\[(.*?)\]", run("readelf", "-d", self.library))
        self.assertEqual({name for name in needed if not re.match(r"(libc|libstdc\+\+|libm|libgcc_s|ld-linux.*)\.so", name)}, set())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
