"""What the passes decide for every golden model is what tests/data/fusions says: a fusion that stops firing is seen, and so is one that nobody recorded."""
import sys
import unittest

from harness import LLMC, SOURCE, TINY, CliTest

sys.path.insert(0, str(SOURCE / "tools" / "golden"))
import fusions  # noqa: E402

RECORDS = SOURCE / "tests" / "data" / "fusions"


class Fusions(CliTest):
    maxDiff = None

    def test_as_recorded(self):
        families = fusions.models()
        self.assertEqual(sorted(path.stem for path in RECORDS.glob("*.txt")), sorted(families))
        for family, folders in families.items():
            with self.subTest(family=family):
                self.assertEqual(fusions.record(LLMC, folders), (RECORDS / f"{family}.txt").read_text())

    def test_every_fusion_fires_somewhere(self):
        text = "".join(path.read_text() for path in RECORDS.glob("*.txt"))
        for fusion in ("fuse-qkv", "fuse-gate-up", "fuse-add-rms-norm", "hoist-rope-tables"):
            self.assertIn(f"\n  {fusion}: ", text)

    def test_one_that_is_off_is_seen(self):
        on = fusions.decisions(LLMC, TINY)
        self.assertTrue(any(line.startswith("fuse-qkv: 3 linears") for line in on), on)
        off = self.ok(LLMC, "compile", TINY, "--no-weights", "--remarks", "--stop-after", "plan-memory", "-o", "/dev/null", "--disable-pass", "fuse-qkv").stderr
        self.assertNotIn("fuse-qkv: ", off)
        self.assertIn("fuse-gate-up: ", off)


if __name__ == "__main__":
    unittest.main()
