"""Plans of earlier formats, and plans as text."""
import unittest

from harness import GOLDEN, LLMC, LLMC_RUN, CliTest

PLANS = GOLDEN.parent / "plans"


class OldPlans(CliTest):
    def test_stored_texts_are_printed_and_others_refused(self):
        for plan in (PLANS / "tiny-q4_0.plan", PLANS / "window.plan", PLANS / "onednn.plan"):
            with self.subTest(plan=plan.name):
                self.assertIn("\nphase        decode 1..1 rows", self.ok(LLMC, "inspect", plan).stdout)
                self.assertTrue(self.ok(LLMC, "inspect", plan, "--ir").stdout.startswith("module @"))
                self.assertIn("after = import, numerics = 1", self.ok(LLMC, "inspect", plan, "--ir", "import").stdout)
                self.fails(1, LLMC, "inspect", plan, "--ir", "fuse-qkv", says=["the IR after fuse-qkv can't be had", "of numerics 1"])
                self.ok(LLMC, "inspect", plan, "--verify")

    def test_steps_of_other_kernels_are_refused(self):
        self.fails(1, LLMC_RUN, PLANS / "onednn.plan", "--tokens", "1,2", "-n", "1", says="phase prefill, step 0 (kernel)")


class Text(CliTest):
    def test_a_plan_is_its_text(self):
        plan, text, again = self.compile(GOLDEN / "llama-gqa2", "a.plan"), self.folder / "a.txt", self.folder / "b.plan"
        text.write_text(self.ok(LLMC, "inspect", plan, "--text").stdout)
        self.ok(LLMC, "assemble", text, "-o", again)
        self.assertEqual(again.read_bytes(), plan.read_bytes())
        self.ok(LLMC_RUN, again, "--selftest")
        text.write_text(text.read_text().replace("vocab ", "vocabulary "))
        self.fails(1, LLMC, "assemble", text, "-o", again, says='"vocabulary" isn\'t known')
        self.fails(2, LLMC, "assemble", text)
        self.assertEqual(again.read_bytes(), plan.read_bytes())


if __name__ == "__main__":
    unittest.main()
