"""Inner loops of products and attention keep their sums in registers: vectors on the stack, counted in the code of every target."""
import json
import re
import unittest

from harness import LLMC, CliTest

PRODUCT = re.compile(r"(?:\{vex\}\s+)?(?:vpdpbusd|vpmaddubsw|vfmadd231ps)\b")
STACK = re.compile(r"-?\d*\(%rsp\)"), re.compile(r"-?\d*\(%r[sb]p\)")  # of a function that has no frame pointer, and of one that has
CONFIG = {
    "model_type": "llama", "hidden_size": 1024, "intermediate_size": 2048, "num_hidden_layers": 1, "num_attention_heads": 16,
    "num_key_value_heads": 4, "vocab_size": 512, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5,
}
# Target -> most vectors on the stack for a product, with q8_0 and with q6_k, whose scales of 16 codes take registers of their own. A change that
# makes it less should bring the number down.
MOST = {
    "x86-64-v3": (0.15, 0.93),
    "x86-64-v3-vnni": (0.40, 0.90),
    "x86-64-v4": (0.14, 0.37),
    "x86-64-v4-vnni": (0.0, 0.34),
}


def innermost_loops(text):
    """The instructions of each loop that has none inside, and whether its function keeps a frame pointer: elsewhere rbp points at anything."""
    lines = [line.split("#")[0].strip() for line in text.splitlines()]
    lines = [line for line in lines if line and (line.endswith(":") or not line.startswith("."))]
    labels = {line[:-1]: i for i, line in enumerate(lines) if line.endswith(":")}
    loops, frame, frames = [], False, []
    for i, line in enumerate(lines):
        if line.endswith(":") and not line.startswith(".L"):
            frame = False
        frame = frame or line.split() == ["movq", "%rsp,", "%rbp"]
        frames.append(frame)
        jump = re.match(r"j\w+\s+(\.L\w+)$", line)
        if jump and labels.get(jump[1], i) < i:
            loops.append((labels[jump[1]], i))
    for begin, end in loops:
        if not any((begin <= b and e < end) or (begin < b and e <= end) for b, e in loops):
            yield [line for line in lines[begin:end + 1] if not line.endswith(":")], frames[begin]


class Spills(CliTest):
    def test_inner_loops_of_every_target(self):
        config = self.folder / "config.json"
        config.write_text(json.dumps(CONFIG))
        for target, bounds in MOST.items():
            for kind, most in zip(("q8_0", "q6_k"), bounds):
                asm = self.folder / "code.s"
                self.ok(LLMC, "compile", config, "--no-weights", "--quantize", kind, "--emit=asm", "--target-cpu", target, "-o", asm)
                counted = 0
                for loop, frame in innermost_loops(asm.read_text()):
                    products = sum(bool(PRODUCT.match(line)) for line in loop)
                    if products < 8:
                        continue
                    counted += 1
                    spills = sum("mm" in line and "broadcast" not in line and bool(STACK[frame].search(line)) for line in loop)
                    self.assertLessEqual(spills, most * products, f"{target}, {kind}\n" + "\n".join(loop))
                self.assertGreater(counted, 20, f"{target}, {kind}")


if __name__ == "__main__":
    unittest.main()
