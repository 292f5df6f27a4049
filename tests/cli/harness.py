"""What the command-line tests share: the programs under test, a scratch folder for each test, and how a run is judged."""
import array
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

LLMC = os.environ["LLMC"]
LLMC_RUN = os.environ["LLMC_RUN"]
ONEDNN = os.environ.get("LLMC_ONEDNN_BUILT", "")  # libllmc_onednn.so; empty in a build without it
SOURCE = pathlib.Path(os.environ["LLMC_SOURCE_DIR"])
GOLDEN = SOURCE / "tests" / "data" / "golden"
GGUF = SOURCE / "tests" / "data" / "golden-gguf"
TINY = SOURCE / "tests" / "data" / "tiny-qwen3"


def run(*arguments, **options):
    """Runs a program; the result has returncode, stdout and stderr as text."""
    if "input" not in options:  # where no prompt is given a pipe would be read
        options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([str(a) for a in arguments], capture_output=True, text=True, errors="replace", timeout=300, **options)


def optional_passes():
    """The passes that may be left out, in order."""
    table = json.loads(run(LLMC, "opt", "--list-passes", "--json").stdout)["passes"]
    return [row["pass"] for row in table if row["need"] == "optional"]


def npy(path):
    """The f32 values of an NPY 1.0 file, and its shape."""
    data = pathlib.Path(path).read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    size = int.from_bytes(data[8:10], "little")
    header = eval(data[10:10 + size].decode())  # a dict literal, made by the program under test
    assert header["descr"] == "<f4" and not header["fortran_order"], header
    values = array.array("f", data[10 + size:])
    return values, header["shape"]


def nmse(a, b):
    """Of two rows of logits; b is the oracle's."""
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) / sum(y * y for y in b)


class CliTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="llmc-cli-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def ok(self, *arguments, **options):
        result = run(*arguments, **options)
        self.assertEqual(result.returncode, 0, f"{' '.join(map(str, arguments))}\n{result.stdout[-2000:]}\n{result.stderr[-4000:]}")
        return result

    def fails(self, status, *arguments, says=(), **options):
        """Fails with this status and a message that has all of `says`."""
        result = run(*arguments, **options)
        text = f"{' '.join(map(str, arguments))}\n{result.stdout[-2000:]}\n{result.stderr[-4000:]}"
        self.assertEqual(result.returncode, status, text)
        for word in [says] if isinstance(says, str) else says:
            self.assertIn(word, result.stderr, text)
        return result

    def compile(self, model, name="m.plan", *flags, **options):
        """A plan for this CPU alone, unless `flags` say which targets: code for one costs a third of that for three."""
        plan = self.folder / name
        target = () if "--target-cpu" in flags else ("--target-cpu", "native")
        self.ok(LLMC, "compile", model, "-o", plan, *target, *flags, **options)
        return plan
