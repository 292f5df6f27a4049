"""Text in, text out, with the model in this repository; and what its machine code is made for."""
import json
import re
import shutil
import subprocess
import unittest

from harness import LLMC, LLMC_RUN, SOURCE, TINY, CliTest

GREEDY = ("--temp", "0", "-n", "8")


class Tokenize(CliTest):
    def test_tokenize_prints_what_is_asked_for(self):
        """The ids are those of PyPI's tokenizers; llama3.json puts BOS in front of a text."""
        folder = SOURCE / "tests/data/tokenizer"
        model, cases = folder / "llama3.json", json.loads((folder / "cases.json").read_text())
        known = dict(zip(cases["texts"], cases["ids"]["llama3"]))

        def tokenize(*flags, **options):
            return self.ok(LLMC, "tokenize", model, *flags, **options).stdout
        for text in ("a<|end|>b", "a\0b", "\U0001f917", "\u0928\u092e\u0938\u094d\u0924\u0947"):
            ids = known[text]
            listed = ",".join(map(str, ids))
            (self.folder / "text").write_bytes(text.encode())
            self.assertEqual(tokenize("-f", self.folder / "text"), listed + "\n")
            self.assertEqual(tokenize("-f", "-", input=text), listed + "\n")
            self.assertEqual(tokenize("-f", "-", "--no-special", input=text), listed.partition(",")[2] + "\n")
            self.assertEqual(tokenize("--decode", listed.partition(",")[2]), text)
            for flag in ("--pieces", "--bytes", "--offsets"):
                lines = [line.split(" ", 1) for line in tokenize("-f", "-", flag, input=text).splitlines()]
                self.assertEqual([int(line[0]) for line in lines], ids)
                if flag == "--bytes":
                    self.assertEqual(b"".join(bytes.fromhex(line[1]) for line in lines[1:]), text.encode())
                if flag == "--offsets":
                    spans = [tuple(map(int, line[1].split(" ")[:2])) for line in lines[1:]]
                    self.assertEqual((spans[0][0], spans[-1][1]), (0, len(text.encode())))
        plain = tokenize("-p", "a<|end|>b", "--no-parse-special", "--no-special").strip()
        self.assertNotIn(str(known["<|end|>"][1]), plain.split(","))
        self.assertEqual(tokenize("--decode", plain), "a<|end|>b")
        self.assertEqual(tokenize("--decode", ",".join(map(str, known["a<|end|>b"])), "--no-special"), "ab")
        self.fails(2, LLMC, "tokenize", model)
        self.fails(1, LLMC, "tokenize", self.folder / "none.json", "-p", "a", says="none.json")


class Text(CliTest):
    def setUp(self):
        super().setUp()
        self.plan = self.compile(TINY)

    def text(self, *flags):
        return self.ok(LLMC_RUN, self.plan, *flags).stdout

    def test_run_is_llmc_run_is_reference(self):
        expected = self.text("-p", "7+12=", *GREEDY)
        self.assertEqual(expected, "19\n")
        for command in ([LLMC, "run", self.plan], [LLMC, "run", TINY], [LLMC, "run", TINY, "--backend", "reference"]):
            self.assertEqual(self.ok(*command, "-p", "7+12=", *GREEDY).stdout, expected)

    def test_a_drawn_seed_is_printed_and_repeats(self):
        """CASES E13."""
        flags = ("-p", "Once upon a time", "-n", "40", "--temp", "1.5")
        first = self.ok(LLMC_RUN, self.plan, *flags)
        seed = re.match(r"seed (\d+)\n", first.stderr).group(1)
        self.assertEqual(self.text(*flags, "--seed", seed, "-t", "3"), first.stdout)

    def test_prompts_of_nothing_and_of_blanks(self):
        """CASES E14: the model has no BOS, so an empty prompt is an error; blanks are a prompt like any other; -n 0 prints nothing."""
        self.fails(1, LLMC_RUN, self.plan, "-p", "", says="empty prompt")
        for blanks in (" ", "\n", " \t\r\n"):
            ids = self.ok(LLMC, "tokenize", self.plan, "-p", blanks).stdout.strip()
            self.assertEqual(self.text("-p", blanks, *GREEDY), self.text("--tokens", ids, *GREEDY))
        self.assertEqual(self.text("-p", "7+12=", "-n", "0"), "")

    def test_tokenize_takes_plans_and_models(self):
        for text in ("7+12=", "Once upon a time, a tiny cat", "caf\u00e9 \U0001f917 \u4f60\u597d"):
            self.assertEqual(self.ok(LLMC, "tokenize", self.plan, "-p", text).stdout, self.ok(LLMC, "tokenize", TINY, "-p", text).stdout)

    def test_perplexity(self):
        """What the model saw in training is far likelier than the same letters backwards."""
        story = "12+7=19\n3+4=7\n" * 8
        for name, text in (("forward", story), ("backward", story[::-1])):
            (self.folder / name).write_text(text)
        forward, backward = (float(self.text("--perplexity", self.folder / name)) for name in ("forward", "backward"))
        self.assertLess(forward * 2, backward)
        self.assertEqual(float(self.text("--perplexity", self.folder / "forward", "-t", "3")), forward)

    def test_without_a_tokenizer_ids_still_work(self):
        ids = self.ok(LLMC, "tokenize", self.plan, "-p", "7+12=").stdout.strip()
        expected = self.text("--tokens", ids, *GREEDY, "--print-tokens")
        self.plan = self.compile(TINY, "bare.plan", "--no-tokenizer")
        self.assertEqual(self.text("--tokens", ids, *GREEDY, "--print-tokens"), expected)
        for flags in (["-p", "7+12="], ["--tokens", ids], ["--perplexity", TINY / "README.md"]):
            self.fails(1, LLMC_RUN, self.plan, *flags, says="no tokenizer")

    def test_prompts_together_are_those_of_each_alone(self):
        prompts = ["7+12=", "Once upon a time", "caf\u00e9", "1+1=", "12+30=", "A cat", "3+4=", "x"]
        lines = self.folder / "prompts.txt"
        lines.write_text("\n".join(prompts) + "\n")
        for flags in (("--temp", "0", "-n", "9"), ("--temp", "1.2", "--seed", "3", "-n", "17", "--stop", "e")):
            alone = []
            for i, prompt in enumerate(prompts):
                seed = () if "--seed" not in flags else ("--seed", str(3 + i))
                alone.append(self.text("-p", prompt, *(f for f in flags if f not in ("--seed", "3")), *seed))
            for n in ("1", "2", "3", "8", "64"):
                together = self.ok(LLMC_RUN, self.plan, "--prompts", lines, "--parallel", n, *flags)
                # An answer of nothing has no line of its own alone.
                self.assertEqual(together.stdout, "".join(text or "\n" for text in alone))
            self.assertRegex(together.stderr, r"8 prompts, \d+ new tokens, .* 8 sequences")
        quoted = self.folder / "prompts.json"
        quoted.write_text("".join(json.dumps(prompt) + "\n" for prompt in prompts))
        answers = [json.loads(line) for line in self.text("--prompts", quoted, "--json", "--temp", "0", "-n", "9").splitlines()]
        self.assertEqual([a["text"] for a in answers], [self.text("-p", p, "--temp", "0", "-n", "9")[:-1] for p in prompts])
        self.assertEqual({a["stop"] for a in answers}, {"eos", "length"})
        run = [LLMC, "run", TINY, "--prompts", lines, "--temp", "0", "-n", "9"]
        self.assertEqual(self.ok(*run).stdout, self.text("--prompts", lines, "--temp", "0", "-n", "9"))
        self.fails(1, *run, "--backend", "reference", "--parallel", "2", says=("one sequence at a time", "--parallel 1"))
        self.assertEqual(self.ok(*run, "--backend", "reference").stdout, self.ok(*run).stdout)
        self.fails(1, LLMC_RUN, self.plan, "--prompts", lines, "--json", says="prompts.txt:1")
        bench = json.loads(self.text("--bench", "--parallel", "3", "-p", "4", "-n", "3", "-r", "1", "--json"))
        self.assertEqual(bench["sequences"], 3)
        self.assertGreater(bench["together_tokens_per_second"], 0)
        lines.write_text("a\n\nb\n")
        self.fails(1, LLMC_RUN, self.plan, "--prompts", lines, says="prompts.txt:2: empty prompt")
        lines.write_text("")
        self.fails(1, LLMC_RUN, self.plan, "--prompts", lines, says="no prompts")

    def test_a_model_without_a_tokenizer_is_named(self):
        folder = self.folder / "mute"
        shutil.copytree(TINY, folder, ignore=shutil.ignore_patterns("tokenizer*"))
        command = (LLMC, "compile", folder, "-o", self.folder / "mute.plan")
        self.assertIn("bytes; the model has no tokenizer, so the plan takes ids alone", self.ok(*command).stderr)
        self.assertNotIn("tokenizer", self.ok(*command, "--no-tokenizer").stderr)

    def test_answers_keep_to_schemas_and_grammars(self):
        """Whatever a model of another text is made to say is JSON of the schema; the program in memory says the same."""
        schema = {"type": "object", "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 12}, "sums": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3},
                                                   "kind": {"enum": ["cat", "dog", None]}}, "required": ["name", "kind"], "additionalProperties": False}
        file = self.folder / "schema.json"
        file.write_text(json.dumps(schema))
        answers = set()
        for seed in range(12):
            flags = ("-p", "Once upon a time", "--temp", "1.2", "--seed", seed, "-n", "150", "--json-schema", file)
            result = self.ok(LLMC_RUN, self.plan, *flags)
            answers.add(result.stdout)
            if "stop: length" in result.stderr:  # an integer has no end of its own
                continue
            answer = json.loads(result.stdout)
            self.assertEqual(json.dumps(answer, ensure_ascii=False), result.stdout.rstrip("\n"))
            self.assertEqual([key for key in schema["properties"] if key in answer], list(answer))
            self.assertTrue({"name", "kind"} <= set(answer) and 1 <= len(answer["name"]) <= 12 and answer["kind"] in ("cat", "dog", None), answer)
            self.assertTrue(all(type(n) is int for n in answer.get("sums", [1])) and 1 <= len(answer.get("sums", [1])) <= 3, answer)
        self.assertGreater(len(answers), 8)
        self.assertEqual(self.ok(LLMC, "run", TINY, *flags).stdout, result.stdout)
        grammar = self.folder / "sum.gbnf"
        grammar.write_text('root ::= [0-9]{2} "=" [0-9]+ "."\n')
        self.assertRegex(self.text("-p", "7+12=", "-n", "30", "--grammar", grammar), r"^\d\d=\d+(\.\n|\n)$")
        grammar.write_text("root ::= sum\n")
        self.fails(1, LLMC_RUN, self.plan, "-p", "7", "--grammar", grammar, says=["sum.gbnf:1:10: the rule sum isn't defined"])

    def test_the_best_of_several_is_one_of_them(self):
        flags = ("-p", "Once upon a time", "-n", "12", "--temp", "1.5")
        alone = [self.text(*flags, "--seed", seed) for seed in (7, 8, 9)]
        best = self.ok(LLMC_RUN, self.plan, *flags, "--seed", "7", "--best-of", "3")
        seed = int(re.search(r"best of 3: seed (\d+),", best.stderr).group(1))
        self.assertEqual(best.stdout, alone[seed - 7])

    def test_code_keeps_to_its_target(self):
        """CASES F01: x86-64-v3 has no 512-bit registers, whatever CPU compiles."""
        if not shutil.which("objdump"):
            self.skipTest("needs objdump")
        self.ok(LLMC, "compile", TINY, "-o", self.plan)
        summary = self.ok(LLMC, "inspect", self.plan).stdout
        targets = re.findall(r"\ntarget +(\S+) ", summary)
        self.assertEqual(targets, ["x86-64-v3", "x86-64-v3-vnni", "x86-64-v4-vnni"])
        for target, (size, offset) in zip(targets, re.findall(r"section +code +(\d+) bytes at (\d+)", summary), strict=True):
            code = self.folder / "code"
            code.write_bytes(self.plan.read_bytes()[int(offset):int(offset) + int(size)])
            text = subprocess.run(["objdump", "-D", "-b", "binary", "-m", "i386:x86-64", code], capture_output=True, text=True, check=True).stdout
            self.assertIn("ymm", text)
            self.assertEqual("zmm" in text, "v4" in target, target)


if __name__ == "__main__":
    unittest.main()
