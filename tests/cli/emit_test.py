"""compile --emit: code for people who look or link, and its header. What is linked computes the plan's bits."""
import ctypes
import json
import pathlib
import shutil
import subprocess
import unittest

from harness import GOLDEN, LLMC, LLMC_RUN, TINY, CliTest, npy

MODEL = GOLDEN / "llama-gqa4"
CC = shutil.which("cc")
CLANG = next((name for name in map(shutil.which, ("clang-19", "clang++-19", "clang")) if name), None)

HOST = r"""
#include "m.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void* zeros(size_t bytes) {
  void* memory = aligned_alloc(4096, (bytes / 4096 + 2) * 4096);
  return memset(memory, 0, (bytes / 4096 + 2) * 4096);
}

// host PLAN WEIGHTS-OFFSET WEIGHTS-BYTES TOKEN...: the last token's logits to stdout, one call of decode a token
int main(int argc, char** argv) {
  const size_t offset = strtoull(argv[2], 0, 10), size = strtoull(argv[3], 0, 10);
  uint8_t* weights = zeros(size);
  FILE* plan = fopen(argv[1], "rb");
  if (!plan || fseek(plan, (long)offset, SEEK_SET) != 0 || fread(weights, 1, size, plan) != size) return 1;
  static LlmcBarrier barrier;
  static const uint32_t keep_going = 0;
  LlmcContext context;
  memset(&context, 0, sizeof context);
  context.weights = weights;
  context.shared = zeros(LLMC_MODEL_SHARED_BYTES);
  context.scratch = zeros(LLMC_MODEL_PRIVATE_BYTES);
  context.scratch_stride = LLMC_MODEL_PRIVATE_BYTES;
  context.states = zeros(LLMC_MODEL_STATE_BYTES);
  float* logits = zeros(4ull * LLMC_MODEL_VOCAB);
  context.logits = logits;
  context.rows = 1;
  context.abi = LLMC_ABI_VERSION;
  context.barrier = &barrier;
  context.abort_request = &keep_going;
  for (int i = 4; i < argc; ++i) {
    const int32_t token = atoi(argv[i]);
    context.tokens = &token;
    context.pos = (uint32_t)(i - 4);
    context.total = context.pos + 1;
    if (llmc_decode(&context, 0, 1) != 0) return 2;
  }
  return fwrite(logits, 4, LLMC_MODEL_VOCAB, stdout) == LLMC_MODEL_VOCAB ? 0 : 3;
}
"""


class EmitTest(CliTest):
    def emit(self, form, name, model=MODEL, *flags):
        self.ok(LLMC, "compile", model, f"--emit={form}", "-o", self.folder / name, *flags)
        return self.folder / name

    def test_what_there_is(self):
        shared = self.emit("so", "m.so")
        self.assertEqual(shared.read_bytes()[:4], b"\x7fELF")
        library = ctypes.CDLL(str(shared))
        for entry in ("llmc_prefill", "llmc_decode", "llmc_score"):
            self.assertTrue(getattr(library, entry))
        self.assertEqual(self.emit("obj", "m.o").read_bytes()[:4], b"\x7fELF")
        assembly = self.emit("asm", "m.s").read_text()
        self.assertIn("llmc_decode:", assembly)
        text = self.emit("ll", "m.ll").read_text()
        self.assertIn("define protected i32 @llmc_decode(", text)
        header = (self.folder / "m.h").read_text()
        self.assertIn("uint32_t llmc_prefill(const LlmcContext* context, uint32_t thread, uint32_t threads);", header)
        self.assertNotIn(str(self.folder), header + text + assembly)

    @unittest.skipUnless(CC, "no C compiler")
    def test_linked_code_computes_the_plans_bits(self):
        flags = ("--target-cpu", "native")
        plan = self.compile(MODEL)
        tokens = [str(id) for id in json.loads((MODEL / "golden.json").read_text())["prompt"]]
        self.ok(LLMC_RUN, plan, "--tokens", ",".join(tokens), "--logits", self.folder / "logits.npy")
        expected = npy(self.folder / "logits.npy")[0]
        sections = json.loads(self.ok(LLMC, "inspect", plan, "--json").stdout)["sections"]
        weights = next(row for row in sections if row["section"] == "weights")
        (self.folder / "host.c").write_text(HOST)
        forms = [("obj", "m.o"), ("so", "m.so")] + ([("asm", "m.s"), ("ll", "m.ll")] if CLANG else [])
        for form, name in forms:
            with self.subTest(form=form):
                code = self.emit(form, name, MODEL, *flags)
                if form in ("asm", "ll"):  # LLVM's own spellings
                    subprocess.run([CLANG, "-O2", "-c", code, "-o", self.folder / "made.o"], check=True, capture_output=True)
                    code = self.folder / "made.o"
                host = self.folder / f"host-{form}"
                subprocess.run([CC, "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Werror", self.folder / "host.c", code, "-o", host], check=True)
                result = subprocess.run([str(word) for word in (host, plan, weights["offset"], weights["bytes"], *tokens)], check=True, stdout=subprocess.PIPE)
                self.assertEqual(result.stdout, expected.tobytes())

    def test_a_description_is_enough(self):
        config = self.folder / "config.json"
        config.write_text((TINY / "config.json").read_text())
        self.emit("ll", "m.ll", config, "--no-weights", "--no-tokenizer", "--target-cpu", "x86-64-v4-vnni")
        self.assertIn("avx512_vnni", (self.folder / "m.h").read_text())

    def test_same_bytes(self):
        one, two = (self.emit("so", name, TINY, "-j", jobs, "--target-cpu", "x86-64-v3").read_bytes() for name, jobs in (("a.so", 1), ("b.so", 2)))
        self.assertEqual(one, two)

    def test_usage(self):
        out = self.folder / "m.o"
        self.fails(2, LLMC, "compile", TINY, "--emit=obj", "-o", out, "--target-cpu", "x86-64-v3,x86-64-v4", says="one target")
        self.fails(2, LLMC, "compile", TINY, "--emit=obj", "-o", out, "--backend", "reference", says="reference")
        self.fails(2, LLMC, "compile", TINY, "--emit=exe", "-o", out, says="exe")
        self.fails(2, LLMC, "compile", TINY, "--emit=obj", "-o", self.folder / "m.h", says="m.h")
        self.fails(2, LLMC, "compile", TINY, "--emit=obj", "-o", out, "--stop-after", "import", says="--emit")
        self.fails(2, LLMC, "compile", TINY, "--emit=obj", says="-o")
        self.fails(2, LLMC, "compile", TINY, "--emit=obj", "-o", "/dev/null", says="/dev/null")
        self.assertEqual(list(pathlib.Path(self.folder).iterdir()), [])
        (self.folder / "m.h").mkdir()
        self.fails(1, LLMC, "compile", TINY, "--emit=obj", "-o", out, says="m.h")
        self.assertFalse(out.exists())


if __name__ == "__main__":
    unittest.main()
