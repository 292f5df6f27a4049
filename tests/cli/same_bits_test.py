"""One model, one set of bits: llmc-run, `llmc run` and the interpreter agree to the byte, whatever the threads, the chunks and the optional passes
(CASES E11)."""
import unittest

from harness import GOLDEN, LLMC, LLMC_RUN, CliTest, optional_passes

TOKENS = "3,1,4,15,9,2,6,5,35,8,9,7,9,3,2,3,8,4,6,2,6,4,3,3,8,3,2,7,9,5,0,2,8,8,4,1,9"
MODELS = ["llama-gqa2", "mistral-window8", "qwen2-bias", "qwen3-norm"]


class SameBits(CliTest):
    def logits(self, *command):
        out = self.folder / "out.npy"
        self.ok(*command, "--tokens", TOKENS, "--logits", out, "--all-positions")
        return out.read_bytes()

    def last(self, *command):
        out = self.folder / "out.npy"
        self.ok(*command, "--tokens", TOKENS, "--logits", out)
        return out.read_bytes()

    def test_run_is_jit_is_reference(self):
        for model in MODELS:
            for quantize in [(), ("--quantize", "q8_0"), ("--quantize", "q4_0")]:
                with self.subTest(model=model, quantize=quantize):
                    flags = [*quantize] if model in ("llama-gqa2", "qwen3-norm") else []
                    if quantize and not flags:
                        continue
                    plan = self.compile(GOLDEN / model, "m.plan", *flags)
                    expected = self.logits(LLMC, "run", GOLDEN / model, *flags, "--backend", "reference")
                    self.assertEqual(self.logits(LLMC, "run", GOLDEN / model, *flags), expected, "ORC")
                    self.assertEqual(self.logits(LLMC, "run", plan), expected, "llmc run PLAN")
                    last = self.last(LLMC, "run", GOLDEN / model, *flags, "--backend", "reference")
                    for threads in (1, 2, 3, 4):
                        self.assertEqual(self.logits(LLMC_RUN, plan, "-t", threads), expected, f"{threads} threads")
                        self.assertEqual(self.last(LLMC_RUN, plan, "-t", threads), last, f"{threads} threads")

    def test_bf16_activations(self):
        """Rounded on every backend alike, and only where the matrix is bf16."""
        model, flags = GOLDEN / "qwen3-bf16", ("--activations", "bf16")
        expected = self.logits(LLMC, "run", model, *flags, "--backend", "reference")
        self.assertNotEqual(self.logits(LLMC, "run", model, "--activations", "f32"), expected)
        self.assertEqual(self.logits(LLMC, "run", model), self.logits(LLMC, "run", model, "--activations", "f32"), "f32 is the default")
        self.assertEqual(self.logits(LLMC, "run", model, *flags), expected, "ORC")
        plan = self.compile(model, "m.plan", *flags)
        for threads in (1, 2, 3):
            self.assertEqual(self.logits(LLMC_RUN, plan, "-t", threads), expected, f"{threads} threads")
        for other in (("--quantize", "q8_0"), ()):
            f32 = GOLDEN / "llama-gqa2" if not other else model
            self.assertEqual(self.logits(LLMC, "run", f32, *other, *flags), self.logits(LLMC, "run", f32, *other, "--activations", "f32"), "no bf16 matrix")

    def test_chunks(self):
        plan = self.compile(GOLDEN / "mistral-window3")
        expected = self.last(LLMC_RUN, plan)
        for chunk in (1, 2, 3, 7, 16, 36):
            self.assertEqual(self.last(LLMC_RUN, plan, "--chunk", chunk, "-t", 2), expected, f"chunks of {chunk}")
        smaller = self.compile(GOLDEN / "mistral-window3", "small.plan", "--chunk", "5")
        self.assertEqual(self.last(LLMC_RUN, smaller), expected, "compiled for chunks of 5")

    def test_optional_passes(self):
        for model in ("qwen2-bias",):
            expected = self.logits(LLMC, "run", GOLDEN / model, "--quantize", "q8_0")
            for disabled in [*([p] for p in optional_passes()), optional_passes()]:
                with self.subTest(model=model, disabled=disabled):
                    flags = [f for p in disabled for f in ("--disable-pass", p)]
                    self.assertEqual(self.logits(LLMC, "run", GOLDEN / model, "--quantize", "q8_0", *flags), expected)

    def test_cache_types_differ(self):
        """The check can fail: another type of cache gives other bits."""
        self.assertNotEqual(self.logits(LLMC, "run", GOLDEN / "llama-gqa2", "--kv-type", "f32"), self.logits(LLMC, "run", GOLDEN / "llama-gqa2", "--kv-type", "f16"))


if __name__ == "__main__":
    unittest.main()
