"""Compiling holds rows, not weights: a model whose plan is larger than the memory that the compiler may have for data of its own."""
import json
import os
import resource
import unittest

from harness import LLMC, CliTest

LIMIT = 240 << 20  # libLLVM's and the compiler's share is about 150 MiB
CONFIG = {
    "model_type": "qwen2",
    "hidden_size": 2048,
    "num_hidden_layers": 4,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "intermediate_size": 8192,
    "vocab_size": 65536,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


class Memory(CliTest):
    def test_a_plan_larger_than_the_memory(self):
        with open(LLMC, "rb") as program:
            if b"__asan_init" in program.read():
                self.skipTest("sanitizers need memory of their own")
        disk = os.statvfs(self.folder)
        if disk.f_bavail * disk.f_frsize < 1 << 30:
            self.skipTest("needs 1 GiB of disk")
        config = self.folder / "config.json"
        config.write_text(json.dumps(CONFIG))
        plan = self.folder / "m.plan"
        flags = ("--weights", "random:1", "--quantize", "q4_0", "--no-tokenizer", "-j", 2)
        self.ok(LLMC, "compile", config, "-o", plan, *flags, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT)))
        self.assertGreater(plan.stat().st_size, LIMIT)


if __name__ == "__main__":
    unittest.main()
