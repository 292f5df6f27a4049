"""Conversations: templates in plans, --messages, --chat on pipes and on a terminal."""
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time
import unittest

from harness import LLMC, LLMC_RUN, SOURCE, TINY, CliTest

CHAT = SOURCE / "tests" / "data" / "chat"
GREEDY = ("--temp", "0")


class Terminal:
    """A program on a pseudo-terminal of 60 columns."""

    def __init__(self, *arguments):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execv(str(arguments[0]), [str(a) for a in arguments])
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
        self.seen = ""

    def until(self, pattern, seconds=120):
        """What is shown up to the first match of a pattern, which is passed over."""
        end = time.monotonic() + seconds
        while True:
            found = re.search(pattern, self.seen)
            if found:
                text, self.seen = self.seen[:found.end()], self.seen[found.end():]
                return text
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            try:
                data = os.read(self.fd, 65536) if ready else b""
            except OSError:
                data = b""
            if not data:
                raise AssertionError(f"{pattern!r} isn't in {self.seen!r}")
            self.seen += data.decode(errors="replace")

    def type(self, text):
        os.write(self.fd, text.encode())

    def say(self, text):
        """A line, and what is shown up to the next prompt."""
        self.type(text + "\r")
        self.until(r"\r\n")
        return self.until(r"\r> \x1b\[K")

    def end(self):
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


class Chat(CliTest):
    def setUp(self):
        super().setUp()
        self.model = self.folder / "model"
        shutil.copytree(TINY, self.model)
        for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
            shutil.copy(CHAT / name, self.model)

    def plan_of(self, *flags):
        plan = self.folder / "chat.plan"
        self.ok(LLMC, "compile", self.model, "-o", plan, "--target-cpu", "native", *flags)
        return plan

    def file(self, name, value):
        path = self.folder / name
        path.write_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        return path

    def test_messages_render_and_ids(self):
        plan = self.plan_of()
        for case in json.loads((CHAT / "ids.json").read_text()):
            request = self.file("request.json", case["request"])
            self.assertEqual(self.ok(LLMC_RUN, plan, "--messages", request, "--render").stdout, case["text"])
            ids = self.ok(LLMC_RUN, plan, "--messages", request, "--print-tokens", "--parse-special").stdout
            self.assertEqual([int(one) for one in ids.split(",")], case["parsed"])
            if "sanitized" in case:
                ids = self.ok(LLMC_RUN, plan, "--messages", request, "--print-tokens").stdout.strip()
                self.assertEqual([int(one) for one in ids.split(",")], case["sanitized"])
                answer = self.ok(LLMC_RUN, plan, "--messages", request, "-n", "6", *GREEDY).stdout
                self.assertEqual(answer, self.ok(LLMC_RUN, plan, "--tokens", ids, "-n", "6", *GREEDY).stdout)

    def test_one_answer(self):
        plan = self.plan_of()
        request = self.file("request.json", [{"role": "user", "content": "hello"}])
        expected = self.ok(LLMC_RUN, plan, "--messages", request, "-n", "6", *GREEDY).stdout
        self.assertEqual(self.ok(LLMC_RUN, plan, "--chat", "-p", "hello", "-n", "6", *GREEDY).stdout, expected)
        self.assertEqual(self.ok(LLMC, "run", self.model, "--chat", "-p", "hello", "-n", "6", *GREEDY).stdout, expected)
        self.assertIn("text", json.loads(self.ok(LLMC_RUN, plan, "--chat", "-p", "hello", "-n", "6", "--json", *GREEDY).stdout))

    def test_no_template_is_an_error_and_never_guessed(self):
        """CASES D09."""
        (self.model / "chat_template.jinja").unlink()
        plan = self.plan_of()
        for flags in (["--chat", "-p", "hi"], ["--messages", self.file("m.json", [{"role": "user", "content": "a"}])]):
            self.fails(1, LLMC_RUN, plan, *flags, says="no chat template")
        self.ok(LLMC_RUN, plan, "-p", "hi", "-n", "1")

    def test_sources_in_order(self):
        """CASES D08: the file goes before tokenizer_config.json; of named templates tool_use is for tools, whatever their order."""
        config = json.loads((self.model / "tokenizer_config.json").read_text())
        named = [{"name": "tool_use", "template": "T{{ eos_token }}"}, {"name": "default", "template": "D"}]
        messages = [{"role": "user", "content": "a"}]
        plain, tools = self.file("plain.json", messages), self.file("tools.json", {"messages": messages, "tools": []})

        def rendered(request):
            return self.ok(LLMC_RUN, self.plan_of("--no-selftest"), "--messages", request, "--render").stdout
        (self.model / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": "C"}))
        self.assertIn("<|im_start|>", rendered(plain))
        (self.model / "chat_template.jinja").unlink()
        self.assertEqual(rendered(plain), "C")
        (self.model / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": named[::-1]}))
        self.assertEqual(rendered(tools), "T<|endoftext|>")
        (self.model / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": named}))
        self.assertEqual(rendered(plain), "D")
        (self.model / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": named[:1]}))
        self.fails(1, LLMC_RUN, self.plan_of("--no-selftest"), "--messages", plain, "--render", says="tool_use")

    def test_what_cannot_be_right_is_refused_when_it_is_compiled(self):
        for source, says in (("a\n{% include 'x' %}", "chat_template.jinja:2"), ("{{ 1|nofilter }}", "No filter named 'nofilter'"), ("{% if %}", "Expected an expression")):
            (self.model / "chat_template.jinja").write_text(source)
            self.fails(1, LLMC, "compile", self.model, "-o", self.folder / "x.plan", says=says)
            self.assertFalse((self.folder / "x.plan").exists())
        self.ok(LLMC, "compile", self.model, "-o", self.folder / "x.plan", "--no-chat-template", "--no-selftest")

    def test_raise_exception_ends_with_status_1(self):
        """CASES D05: the template's message, and no answer."""
        (self.model / "chat_template.jinja").write_text("{{ raise_exception('System role not supported') if messages[0].role == 'system' }}x")
        result = self.fails(1, LLMC_RUN, self.plan_of("--no-selftest"), "--messages", self.file("m.json", [{"role": "system", "content": "a"}]), says="System role not supported")
        self.assertEqual(result.stdout, "")

    def test_usage(self):
        plan = self.plan_of("--no-selftest")
        request = self.file("m.json", [{"role": "user", "content": "a"}])
        for flags in (["--messages", request, "-p", "x"], ["--messages", request, "--chat"], ["--render", "-p", "x"], ["--chat", "--tokens", "1"], ["--chat", "--bench"],
                      ["-p", "x", "--parse-special"], ["--messages", request, "--render", "--print-tokens"]):
            self.fails(2, LLMC_RUN, plan, *flags)
        self.fails(1, LLMC_RUN, plan, "--messages", self.file("bad.json", "[{]"), says="bad.json:1:3")
        self.fails(1, LLMC_RUN, plan, "--messages", self.folder / "none.json", says="none.json")

    def test_a_pipe_is_one_message_a_line(self):
        plan = self.plan_of()
        lines = ["hello", "7+12="]
        result = subprocess.run([LLMC_RUN, plan, "--chat", "-n", "5", *GREEDY], input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=300)
        self.assertEqual(result.returncode, 0, result.stderr)
        messages, expected = [], ""
        for line in lines:
            messages.append({"role": "user", "content": line})
            answer = self.ok(LLMC_RUN, plan, "--messages", self.file("m.json", messages), "-n", "5", *GREEDY).stdout
            messages.append({"role": "assistant", "content": answer.removesuffix("\n")})
            expected += answer
        self.assertEqual(result.stdout, expected)
        self.assertNotIn("\x1b", result.stdout + result.stderr)

    def test_speculation_leaves_every_answer(self):
        plan = self.plan_of()
        lines = "hello\n7+12=\nhello\n7+12=19, 7+12=\n"
        for sampling in (GREEDY, ("--temp", "0.9", "--seed", "5"), ("--temp", "1.5", "--seed", "9", "--top-k", "40", "--repeat-penalty", "1.1")):
            answers, stopped = {}, {}
            for how in ("off", "ngram", plan):
                flags = (*sampling, "-n", "24", "--speculate", how)
                answers[how] = self.ok(LLMC_RUN, plan, "--chat", *flags, input=lines).stdout
                stopped[how] = self.ok(LLMC_RUN, plan, "--chat", "-p", "hello hello hello", *flags, "--stop", "e", "--ignore-eos").stdout
            self.assertEqual(len(set(answers.values())), 1, answers)
            self.assertEqual(len(set(stopped.values())), 1, stopped)

    def test_commands_on_a_terminal(self):
        plan = self.plan_of()
        saved = self.folder / "saved.json"
        expected = self.ok(LLMC_RUN, plan, "--chat", "-p", "hello", "-n", "5", *GREEDY).stdout.strip("\n")
        terminal = Terminal(LLMC_RUN, plan, "--chat", "-n", "5", *GREEDY)
        terminal.until(r"\r> \x1b\[K")
        answer = terminal.say("hello")
        self.assertIn(expected.split("\n")[0], answer)
        self.assertRegex(terminal.say("/stats"), r"of 256 positions.*stop: (length|eos)")
        terminal.say("again")
        # What the session has from before is not computed again.
        kept = re.search(r"prompt: (\d+) tokens, (\d+) of them kept", terminal.say("/stats"))
        self.assertGreater(int(kept[2]), 0)
        self.assertIn("4 messages", terminal.say(f"/save {saved}"))
        messages = json.loads(saved.read_text())["messages"]
        self.assertEqual([m["role"] for m in messages], ["user", "assistant", "user", "assistant"])
        self.assertEqual(messages[0]["content"], "hello")
        self.assertEqual(messages[1]["content"], expected)
        terminal.say("/reset")
        terminal.say("/system Be\u00e9")
        terminal.say(f"/save {saved}")
        self.assertEqual(json.loads(saved.read_text())["messages"], [{"role": "system", "content": "Be\u00e9"}])
        loaded = self.file("loaded.json", [{"role": "user", "content": "a", "x": [1, None, 12345678901234567890]}])
        self.assertIn("1 messages", terminal.say(f"/load {loaded}"))
        terminal.say(f"/save {saved}")
        self.assertEqual(json.loads(saved.read_text())["messages"], json.loads(loaded.read_text()))
        self.assertIn("isn't a command", terminal.say("/nope"))
        self.assertIn("none.json", terminal.say("/load none.json"))
        self.assertIn("/save FILE", terminal.say("/help"))
        # Editing: the line that is sent is "/save FILE".
        terminal.say("/reset")
        terminal.type("XY\x7f\x7fsave \u00e9\x1b[D\x1b[3~\x01/\x05")
        self.assertIn("isn't a command", terminal.say("\x17\x17/nope"))
        terminal.type("\x1b[A")  # the line before, again
        self.assertIn("isn't a command", terminal.say(""))
        terminal.type("given up\x03")
        terminal.until(r"\r> \x1b\[K$")
        terminal.type("\x04")
        self.assertEqual(terminal.end(), 0)

    def test_ctrl_c_stops_an_answer_and_not_the_program(self):
        plan = self.plan_of()
        terminal = Terminal(LLMC_RUN, plan, "--chat", "--ignore-eos", *GREEDY)
        terminal.until(r"\r> \x1b\[K")
        terminal.type("hello\r")
        terminal.until(r"\r\n[^\r]")  # the answer has begun
        os.kill(terminal.pid, signal.SIGINT)
        terminal.until(r"\r> \x1b\[K")
        self.assertRegex(terminal.say("/stats"), r"stop: (interrupted|length)")
        terminal.type("/exit\r")
        self.assertEqual(terminal.end(), 0)


if __name__ == "__main__":
    unittest.main()
