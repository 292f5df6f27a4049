"""Views of a plan: inspect --memory, --weights, --code, --schedule, --recipe and explain, as text and as JSON."""
import json
import pathlib
import re
import shutil
import tempfile
import unittest

from harness import GGUF, GOLDEN, LLMC, ONEDNN, TINY, CliTest, run


class PlanTest(CliTest):
    """Tests that look at one plan, which is made once."""

    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="llmc-cli-"))
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        cls.tiny = folder / "tiny.plan"
        result = run(LLMC, "compile", TINY, "-o", cls.tiny, "--target-cpu", "native")
        if result.returncode != 0:
            raise AssertionError(result.stderr)


class InspectTest(PlanTest):
    def json(self, *arguments):
        return json.loads(self.ok(LLMC, *arguments, "--json").stdout)

    def test_memory_is_what_the_manifest_says(self):
        plan = self.tiny
        summary, memory = self.json("inspect", plan), self.json("inspect", plan, "--memory", "--threads", "3")
        mapped = {row["what"]: row["bytes"] for row in memory["mapped"]}
        sections = {row["section"]: row["bytes"] for row in summary["sections"]}
        self.assertEqual(mapped["weights"], sections["weights"])
        self.assertEqual(mapped["shared arena"], summary["shared_bytes"])
        self.assertEqual(mapped["private arenas of 3"], 3 * summary["private_bytes"])
        self.assertEqual(mapped["states"], summary["state_bytes"])
        rows = max(row["most_rows"] for row in summary["phases"] if row["phase"] == "score")
        self.assertEqual(mapped["logits"], 4 * summary["vocabulary"] * rows)
        parts = [value for what, value in mapped.items() if what != "all"]
        self.assertEqual(sum(parts), mapped["all"])
        for row in memory["mapped"]:
            self.assertEqual(row["mapped"] % 4096, 0, row)
            self.assertGreaterEqual(row["mapped"], row["bytes"], row)
        # The peak grows by a private arena a thread, and ends at all of the states.
        peak = {(row["positions"], row["threads"]): row for row in memory["peak"]}
        last = summary["context"]
        self.assertEqual(peak[last, 3]["bytes"] - peak[last, 1]["bytes"], 2 * summary["private_bytes"])
        self.assertEqual(peak[last, 3]["bytes"], mapped["all"])
        self.assertEqual(peak[last, 1]["states"], sum(row["bytes"] for row in memory["states"]))
        half = self.json("inspect", plan, "--memory", "--context", str(last // 2))
        self.assertEqual(half["peak"][-1]["states"], peak[last, 1]["states"] // 2)

    def test_arenas_hold_no_two_live_values_in_one_place(self):
        for model, *flags in ((TINY, "--quantize", "q8_0"), (GOLDEN / "mistral-window3",)):
            plan = self.compile(model, "m.plan", *flags)
            summary, memory = self.json("inspect", plan), self.json("inspect", plan, "--memory")
            ends = {"shared": 0, "private": 0}
            for phase in ("prefill", "decode", "score"):
                buffers = memory[f"{phase}_arenas"]
                self.assertGreater(len(buffers), 5)
                for i, a in enumerate(buffers):
                    ends[a["arena"]] = max(ends[a["arena"]], a["offset"] + a["bytes"])
                    for b in buffers[:i]:
                        apart = a["offset"] + a["bytes"] <= b["offset"] or b["offset"] + b["bytes"] <= a["offset"]
                        dead = a["to_step"] < b["from_step"] or b["to_step"] < a["from_step"]
                        self.assertTrue(a["arena"] != b["arena"] or apart or dead, (phase, a, b))
            self.assertEqual(ends["shared"], summary["shared_bytes"])
            self.assertEqual(ends["private"], summary["private_bytes"])
            for row in memory["arenas"]:
                self.assertLessEqual(row["live_at_most"], row["bytes"], row)

    def test_memory_as_text(self):
        plan = self.compile(GOLDEN / "llama-deep")
        text = self.ok(LLMC, "inspect", plan, "--memory").stdout
        self.assertRegex(text, r"(?m)^mapped\n  what +bytes +mapped how\n  weights +\d+ +\d+ the file, shared between processes$")
        self.assertRegex(text, r"(?m)^  %b\{i\}\.\w+ .*i = \d+\.\.\d+$")  # layers are folded
        self.assertLess(text.count("\n"), 140)
        self.fails(2, LLMC, "inspect", plan, "--memory", "--context", "100000000", says="over the plan's")
        self.fails(2, LLMC, "inspect", plan, "--threads", "2", says="--memory")

    def test_weights(self):
        plan = self.compile(GGUF / "llama-q4_1" / "model.gguf")
        summary, weights = self.json("inspect", plan), self.json("inspect", plan, "--weights")
        section = next(row for row in summary["sections"] if row["section"] == "weights")
        end = 0
        for row in weights["weights"]:
            self.assertGreaterEqual(row["offset"], end, row)
            end = row["offset"] + row["bytes"]
        self.assertLessEqual(end, section["bytes"])
        self.assertEqual(weights["bytes"] + weights["padding"], section["bytes"])
        packed = next(row for row in weights["weights"] if row["name"] == "$b0.wqkv")
        self.assertEqual(packed["layout"], "tiles16")
        self.assertEqual(packed["made_by"], "pack $b0.wq, $b0.wk, $b0.wv")
        # One flipped byte changes the hash of one tensor.
        data = bytearray(plan.read_bytes())
        data[section["offset"] + packed["offset"] + 7] ^= 1
        other = self.folder / "other.plan"
        other.write_bytes(data)
        after = self.json("inspect", other, "--weights")["weights"]
        self.assertEqual([a["name"] for a, b in zip(after, weights["weights"]) if a["xxh3"] != b["xxh3"]], ["$b0.wqkv"])

    def test_code_of_every_target(self):
        plan = self.compile(TINY, "m.plan", "--target-cpu", "x86-64-v3,x86-64-v4-vnni")
        code = self.json("inspect", plan, "--code")
        self.assertEqual([row["target"] for row in code["targets"]], ["x86-64-v3", "x86-64-v4-vnni"])
        self.assertIn("avx512_vnni", code["targets"][1]["needs"])
        for target in code["targets"]:
            functions = [row for row in code["functions"] if row["target"] == target["target"]]
            self.assertEqual(len(functions), target["functions"])
            self.assertLessEqual(sum(row["bytes"] for row in functions), target["bytes"])
            self.assertEqual({row["entry"] for row in code["entries"] if row["target"] == target["target"]}, {"prefill", "decode", "score"})
        only = self.json("inspect", plan, "--code", "--target-cpu", "x86-64-v3")
        self.assertEqual([row["target"] for row in only["targets"]], ["x86-64-v3"])
        self.fails(2, LLMC, "inspect", plan, "--code", "--target-cpu", "sparc", says=("sparc", "x86-64-v3, x86-64-v4-vnni"))

    def test_assembly(self):
        plan = self.compile(TINY, "m.plan", "--target-cpu", "x86-64-v3,x86-64-v4-vnni")
        text = self.ok(LLMC, "inspect", plan, "--code", "--asm", "llmc_decode", "--target-cpu", "x86-64-v3").stdout
        self.assertTrue(text.startswith("x86-64-v3 llmc_decode\n"), text[:200])
        self.assertRegex(text, r"\n +[0-9a-f]+  call +(linear|embed|norm)\w*\.\d+\n")  # calls are named
        self.assertIn("  ret\n", text)
        rows = self.json("inspect", plan, "--code", "--asm", "--target-cpu", "x86-64-v4-vnni")["assembly"]
        self.assertTrue(any("zmm" in row["instruction"] for row in rows))
        self.assertFalse([row for row in rows if ".byte" in row["instruction"]])
        # Instructions lie one behind the other, from each function's offset.
        code = self.json("inspect", plan, "--code", "--target-cpu", "x86-64-v4-vnni")
        firsts = {}
        for row in rows:
            firsts.setdefault(row["function"], row["offset"])
        self.assertEqual(firsts, {row["function"]: row["offset"] for row in code["functions"]})
        self.fails(2, LLMC, "inspect", plan, "--code", "--asm", "none.7", says=("none.7", "--code"))
        self.fails(2, LLMC, "inspect", plan, "--asm", says="--code")

    def test_schedule(self):
        plan = self.tiny
        schedule = self.json("inspect", plan, "--schedule")
        self.assertEqual(schedule["decode_steps"], [{"step": 'code "decode"'}])
        rows = schedule["decode_schedule"]
        functions = {row["function"] for row in self.json("inspect", plan, "--code")["functions"]}
        for row in rows:
            self.assertIn(row["function"], functions)
        self.assertEqual([row["step"] for row in rows], sorted(row["step"] for row in rows))
        self.assertEqual(rows[0]["ops"].split(" + ")[0], "embed")
        self.assertIn("$embed", rows[0]["reads"])
        self.assertIn("logits", rows[-1]["makes"])
        # Products that stand alone between barriers, and no other work.
        over = {row["ops"].split(" + ")[0]: row["over"] for row in rows}
        self.assertEqual(over["linear"], "tiles, claimed")
        self.assertFalse([row for row in rows if "claimed" in row["over"] and not row["ops"].startswith("linear")])
        text = self.ok(LLMC, "inspect", plan, "--schedule").stdout
        self.assertRegex(text, r"(?m)^decode +\d+ calls in \d+ steps$")

    def test_the_recipe_makes_the_same_bytes(self):
        for model, *flags in ((TINY, "--kv-type", "f32", "--context", "96", "--chunk", "7", "--quantize", "q4_0", "--disable-pass", "fuse-qkv"),
                              (TINY, "--no-tokenizer", "--no-selftest"), (GOLDEN / "qwen2-bias", "--activations", "f32"),
                              (GOLDEN / "qwen2-bias" / "config.json", "--weights", "random:7")):
            plan = self.compile(model, "m.plan", *flags)
            recipe = self.json("inspect", plan, "--recipe")
            command = [str(model) if word == "MODEL" else word for word in recipe["command"]]
            self.assertEqual(command[:2], ["llmc", "compile"])
            self.assertEqual(command[-2:], ["-o", "OUT.plan"])
            self.ok(LLMC, *command[1:-1], self.folder / "again.plan")
            self.assertEqual((self.folder / "again.plan").read_bytes(), plan.read_bytes(), recipe)
            self.assertTrue(recipe["inputs"])
            self.assertTrue(all(re.fullmatch("[0-9a-f]{64}", row["sha256"]) for row in recipe["inputs"]))
        self.assertIn("command  llmc compile MODEL --backend llvm --target-cpu ", self.ok(LLMC, "inspect", plan, "--recipe").stdout)

    def test_a_program_that_holds_a_plan(self):
        plan = self.tiny
        result = run(LLMC, "compile", TINY, "--standalone", "--target-cpu", "native", "-o", self.folder / "app")
        if "llmc-run-static" in result.stderr:
            self.skipTest("no static loader here")
        for view in ("--memory", "--weights", "--code", "--schedule"):
            self.assertEqual(self.ok(LLMC, "inspect", self.folder / "app", view).stdout, self.ok(LLMC, "inspect", plan, view).stdout)
        self.assertIn("--standalone", self.ok(LLMC, "inspect", self.folder / "app", "--recipe").stdout)

    def test_one_view_at_a_time(self):
        plan = self.tiny
        self.fails(2, LLMC, "inspect", plan, "--memory", "--weights", says="exclude")
        for view in ("--ir", "--text", "--verify"):
            self.fails(2, LLMC, "inspect", plan, view, "--json", says="--json")
        self.fails(2, LLMC, "inspect", plan, "--steps", says="--steps")

    @unittest.skipUnless(ONEDNN, "a build without oneDNN")
    def test_onednn(self):
        plan = self.compile(TINY, "m.plan", "--backend", "onednn")
        schedule = self.json("inspect", plan, "--schedule")
        stored = [row["step"] for row in schedule["decode_steps"]]
        calls = schedule["decode_schedule"]
        self.assertEqual(sum(step.startswith("dnnl ") for step in stored), sum(row["function"] == "dnnl" for row in calls))
        self.assertEqual(sum(step != "barrier" for step in stored), len(calls))
        self.assertEqual(self.json("inspect", plan, "--code")["targets"], [])
        self.assertIn("mapped", self.json("inspect", plan, "--memory"))

    def test_a_plan_without_code(self):
        plan = self.compile(TINY, "m.plan", "--backend", "reference")
        self.assertTrue(all(row["function"] == "" for row in self.json("inspect", plan, "--schedule")["decode_schedule"]))
        self.assertIn("value", self.json("explain", plan, "%b0.x")["decode"][0])


class ExplainTest(PlanTest):
    def test_decisions(self):
        plan = self.compile(GOLDEN / "llama-deep", "m.plan", "--disable-pass", "fuse-gate-up")
        text = self.ok(LLMC, "explain", plan).stdout
        self.assertRegex(text, r"(?m)^  fuse-qkv +3 linears from \$b\{i\}\.wq on are one, i = 0\.\.\d+$")
        self.assertRegex(text, r"(?m)^  fuse-gate-up +was left out$")
        rows = json.loads(self.ok(LLMC, "explain", plan, "--json").stdout)["decisions"]
        self.assertIn({"pass": "fuse-gate-up", "decision": "was left out"}, rows)

    def test_a_fusion_that_did_not_fire_says_why(self):
        plan = self.compile(GOLDEN / "llama-deep", "m.plan", "--quantize", "q4_k_m")
        text = self.ok(LLMC, "explain", plan).stdout
        self.assertRegex(text, r"(?m)^  fuse-qkv +\$\S+ and \$\S+ share their input but are not fused: \w+ and \w+")

    def test_a_value(self):
        plan = self.tiny
        rows = {row["what"]: row["value"] for row in json.loads(self.ok(LLMC, "explain", plan, "%b0.q", "--json").stdout)["decode"]}
        self.assertIn("linear", rows["computes"])
        self.assertRegex(rows["function"], r"^linear\w*\.\d+$")
        self.assertRegex(rows["place"], r"^(shared|private)\+\d+$")
        self.assertEqual(rows["bytes"] % 64, 0)
        self.assertRegex(rows["needed"], r"^steps \d+ to \d+$")
        self.assertTrue(rows["read_by"] if "read_by" in rows else rows["read by"])
        text = self.ok(LLMC, "explain", plan, "%b0.q").stdout
        self.assertIn("threads divide", text)
        # It is where --memory has it.
        buffers = json.loads(self.ok(LLMC, "inspect", plan, "--memory", "--json").stdout)["decode_arenas"]
        buffer = next(row for row in buffers if row["buffer"] == "%b0.q")
        self.assertEqual(rows["place"], f"{buffer['arena']}+{buffer['offset']}")
        self.assertEqual(rows["bytes"], buffer["bytes"])

    def test_a_tensor(self):
        plan = self.tiny
        found = json.loads(self.ok(LLMC, "explain", plan, "$b0.wqkv", "--json").stdout)
        self.assertEqual(found["kind"], "const")
        self.assertEqual(found["made_by"], "pack $b0.wq, $b0.wk, $b0.wv")
        self.assertEqual({row["phase"] for row in found["readers"]}, {"prefill", "decode", "score"})
        part = json.loads(self.ok(LLMC, "explain", plan, "$b0.wq", "--json").stdout)
        self.assertEqual(part["goes_into"], ["$b0.wqkv"])
        self.assertIn("fuse-qkv", [row["pass"] for row in part["decisions"]])
        weights = json.loads(self.ok(LLMC, "inspect", plan, "--weights", "--json").stdout)["weights"]
        self.assertEqual(next(row["offset"] for row in weights if row["name"] == "$b0.wqkv"), found["offset"])

    def test_usage(self):
        plan = self.tiny
        self.fails(2, LLMC, "explain", plan, "%b99.none", says="%b99.none")
        self.fails(2, LLMC, "explain", plan, "b0.q", says="no name")
        self.fails(2, LLMC, "explain", plan, "%", says="no name")
        self.fails(1, LLMC, "explain", self.folder / "none.plan", says="none.plan")


if __name__ == "__main__":
    unittest.main()
