"""--hidden and --embed on the command line: plans that have the rows, and what is said of those that haven't."""

import json
import struct
import unittest

from harness import LLMC, LLMC_RUN, SOURCE, CliTest, npy

MODELS = SOURCE / "tests" / "data"
DECODER = MODELS / "golden" / "llama-bias"
ENCODER = MODELS / "embeddings" / "bert-mean"
LAST = MODELS / "embeddings" / "qwen3-last"


class HiddenTest(CliTest):
    def test_of_a_decoder(self):
        """A phase on request, which costs code and nothing else; the same bits from a plan, in memory and by the interpreter."""
        plain, with_rows = self.folder / "plain.plan", self.folder / "rows.plan"
        self.ok(LLMC, "compile", DECODER, "-o", plain, "--target-cpu", "x86-64-v3")
        self.ok(LLMC, "compile", DECODER, "-o", with_rows, "--target-cpu", "x86-64-v3", "--hidden", "--check")
        failed = self.fails(1, LLMC_RUN, plain, "--tokens", "5,6,7", "--hidden", self.folder / "x.npy")
        self.assertIn("no phase that gives hidden rows (llmc compile --hidden makes one)", failed.stderr)
        self.assertFalse((self.folder / "x.npy").exists())
        found = []
        for command in ([LLMC_RUN, with_rows], [LLMC_RUN, with_rows, "-t", "2", "--chunk", "2"], [LLMC, "run", DECODER],
                        [LLMC, "run", DECODER, "--backend", "reference"]):
            self.ok(*command, "--tokens", "5,6,7,8,9", "--hidden", self.folder / "x.npy")
            values, shape = npy(self.folder / "x.npy")
            self.assertEqual(shape, (5, 32))
            found.append(values)
        self.assertTrue(all(values == found[0] for values in found))
        sizes = [json.loads(self.ok(LLMC, "inspect", plan, "--memory", "--json").stdout) for plan in (plain, with_rows)]
        self.assertEqual(len(sizes), 2)
        self.assertEqual(self.ok(LLMC_RUN, with_rows, "--selftest").stdout, "self-test passed\n")
        self.assertIn("hidden", self.ok(LLMC, "inspect", with_rows).stdout)

    def test_of_an_encoder(self):
        """One array a line of input, or all in a file; a plan gives what llmc run gives."""
        plan = self.folder / "e.plan"
        self.ok(LLMC, "compile", ENCODER, "-o", plan, "--check")
        self.assertEqual(self.ok(LLMC_RUN, plan, "--selftest").stdout, "self-test passed\n")
        (self.folder / "texts").write_text("the dog\na fox: it jumps\n")
        lines = self.ok(LLMC_RUN, plan, "-f", self.folder / "texts", "--embed").stdout.splitlines()
        rows = [json.loads(line) for line in lines]
        self.assertEqual([len(row) for row in rows], [24, 24])
        self.assertAlmostEqual(sum(x * x for x in rows[0]), 1, places=6)
        self.assertEqual(self.ok(LLMC_RUN, plan, "-p", "the dog", "--embed").stdout, lines[0] + "\n")
        self.assertEqual(self.ok(LLMC, "run", ENCODER, "--embed", "-p", "the dog").stdout, lines[0] + "\n")
        self.ok(LLMC_RUN, plan, "--embed", self.folder / "e.npy", "-f", self.folder / "texts")
        values, shape = npy(self.folder / "e.npy")
        self.assertEqual(shape, (2, 24))
        self.assertEqual(list(values[:24]), [struct.unpack("<f", struct.pack("<f", x))[0] for x in rows[0]])
        other = self.ok(LLMC_RUN, plan, "-p", "the dog", "--embed", "--prompt-name", "query").stdout
        self.assertNotEqual(other, lines[0] + "\n")
        self.assertEqual(other, self.ok(LLMC_RUN, plan, "-p", "query: the dog", "--embed").stdout)
        cls = self.ok(LLMC_RUN, plan, "-p", "the dog", "--embed", "--pooling", "cls").stdout
        self.assertNotEqual(cls, lines[0] + "\n")
        self.ok(LLMC_RUN, plan, "-p", "the dog", "--pair", "a fox", "--hidden", self.folder / "h.npy")
        self.assertEqual(npy(self.folder / "h.npy")[1][1], 24)
        for arguments, text in ((["-p", "the dog"], "no logits"), (["-p", "x", "--logits", self.folder / "l.npy"], "no logits"),
                                (["-p", "x", "--embed", "--prompt-name", "none"], 'no prompt "none"; it has')):
            self.assertIn(text, self.fails(1, LLMC_RUN, plan, *arguments).stderr)
        self.assertIn("--pair", self.fails(2, LLMC_RUN, plan, "-p", "x", "--pair", "y").stderr)
        self.assertIn("mean, cls or last", self.fails(2, LLMC_RUN, plan, "-p", "x", "--embed", "--pooling", "max").stderr)

    def test_pooling_that_nothing_says(self):
        """A model without modules.json is refused for --embed until --pooling says how."""
        model = MODELS / "golden-hidden" / "bert-types"
        plan = self.folder / "e.plan"
        self.ok(LLMC, "compile", model, "-o", plan, "--target-cpu", "x86-64-v3")
        self.assertIn("don't say how rows are pooled", self.fails(1, LLMC_RUN, plan, "--tokens", "5,6", "--embed").stderr)
        self.assertEqual(len(json.loads(self.ok(LLMC_RUN, plan, "--tokens", "5,6", "--embed", "--pooling", "mean").stdout)), 36)
        gguf = self.folder / "g.plan"
        made = self.ok(LLMC, "compile", MODELS / "golden-hidden" / "bert-types-gguf" / "model.gguf", "-o", gguf, "--target-cpu", "x86-64-v3")
        self.assertNotIn("warning", made.stderr)
        self.fails(1, LLMC_RUN, gguf, "-p", "a", "-n", "2", says="only --tokens with --hidden or --embed works on it")
        self.assertEqual(len(json.loads(self.ok(LLMC_RUN, gguf, "--tokens", "5,6", "--embed").stdout)), 36)

    def test_of_a_decoder_that_makes_embeddings(self):
        """Its files ask for the rows; it still gives logits."""
        plan = self.folder / "q.plan"
        self.ok(LLMC, "compile", LAST, "-o", plan, "--target-cpu", "x86-64-v3")
        row = json.loads(self.ok(LLMC_RUN, plan, "-p", "the dog", "--embed").stdout)
        self.assertAlmostEqual(sum(x * x for x in row), 1, places=6)
        self.ok(LLMC_RUN, plan, "-p", "the dog", "--logits", self.folder / "l.npy")
        text = self.ok(LLMC, "inspect", plan, "--text").stdout
        (self.folder / "q.txt").write_text(text)
        self.assertIn("pooling last normalize 20", text)


if __name__ == "__main__":
    unittest.main()
