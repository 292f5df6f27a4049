"""Writes which tokens llguidance lets come along random texts of grammars and JSON schemas: tests/data/constraints/masks.txt.

    tools/venv --constraints tools/golden/constraints.py [--out tests/data/constraints] [--vocabulary tokenizer.json] [--walks N]

The file begins with a vocabulary, `token` (hex of its bytes) a line; id 0 ends a text. A case is `gbnf` or `schema` with its source in hex, then walks: `walk`, and for each
token `MASK ID`: a bit an id (hex of bytes, bit 0 first) and the token that came; the last mask of a walk has no id. The tokens of a walk are drawn from the masks,
long ones more often, so that they lie across all borders of the grammar.

--vocabulary takes the tokens of a byte-level tokenizer.json instead: for a check over a whole vocabulary, too large to commit.
"""

import argparse
import json
import pathlib
import random

from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper
from llguidance.gbnf_to_lark import gbnf_to_lark

# Separators as json.dumps writes them, and \\u escapes for any character.
NO_ESCAPES = {"x-guidance": {"json_allowed_escapes": ""}}  # in keys beside named ones ours has none: such a schema has no other strings
JSON_OPTIONS = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": ", "json_allow_general_unicode_escapes": True}

# No U+007F and no /: llguidance's strings have neither the one nor the escape of the other.
PRINTABLE = [chr(c) for c in range(0x20, 0x7F) if chr(c) != "/"] + ["\n", "\t"]
SPLIT = [bytes([b]) for b in "é€😀".encode()] + [b"\x80", b"\xbf", b"\xed", b"\xc0", b"\xff", b"\xf4", b"\x90"]  # parts of characters, and what is none
LONGER = ["{\"", "\":", "\": ", "\": \"", "\", \"", "\"}", "\"]", "}, ", "], ", "[[", "[]", "{}", "]]", "true", "rue", "fal", "se", "null", "nul", "12", "00", "3.14", "-1", "e+",
          ", ", ": ", ", \"", "\": [", "\": {", "\": 1", "\"a", "a\"", "ab", "abc", "\"b\"", "b\": ", "name", "\"name\": ", "red", "\"re", "green", "een\"", "\\u", "\\u00", "\\\"", "\\n", "e9",
          "\\ud83d\\ude00", "\\ude00", "d83d", "the ", " a", "x + ", "+ y", "1. ", "- ", "\n- ", "\n\n", "::=", "((", "))", "(x", "y)", ") + (", "café", "€ 5", "日本", "😀!", "A1", "fe", "ll", "foo", "bar", "foobar", "{\"a\": ", "0}", "1, 2", "<b>", "</", "b>"]

GRAMMARS = [
    'root ::= "yes" | "no" | "maybe"',
    'root ::= ("- " item)+\nitem ::= [^\\n]{1,8} "\\n"',
    'root ::= expr\nexpr ::= term (" + " term)*\nterm ::= [0-9]+ | [a-z] | "(" expr ")"  # nested',
    'root ::= [a-zA-Z_] [a-zA-Z0-9_]{0,5} "!"?',
    'root ::= "a"{2,4} "b"{3} "c"{1,}',
    'root ::= x | ""\nx ::= "x" x | "y"',
    'root ::= [é€] [^a-z]* "."',
    'root ::= ("€" | "😀" | "café")+ "!"?',
    'root ::= "(" root ")" | "[" root "]" | "x"',
    'root ::= (a | b)*\na ::= "foo" | "abc"\nb ::= "bar" | "x"',  # llguidance's lexer takes the longest terminal: none begins another
    'root ::= tag\ntag ::= "<b>" (tag | [a-c])* "</b>"'.replace("</b>", "<x>"),
    'root ::= ("a" ("b" | "c")?)+ ("d" |\n  "e") # comment\n',
    'root ::= [^\\x00-\\x7F]+',
    'root ::= "{" (pair (", " pair)*)? "}"\npair ::= "\\"" [a-z]+ "\\": " [0-9]+',
]

SCHEMAS = [
    {},
    {"type": "string"},
    {"type": "string", "minLength": 1, "maxLength": 3},
    {"type": ["integer", "null"]},
    {"type": "number"},
    {"enum": ["red", "green", 12, None, {"a": [1, 2]}, 3.14]},
    {"const": "caf\u00e9 \"x\""},
    {"type": "boolean"},
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "name": {"type": "boolean"}}, "required": ["b"], "additionalProperties": False},
    {"type": "object", "properties": {"a": {"type": "integer"}, "ab": {"type": "null"}}, "additionalProperties": False},
    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": {"type": "boolean"}} | NO_ESCAPES,
    {"properties": {"a": {"type": "null"}, "name": {"type": "number"}}, "type": "object", "additionalProperties": {"type": "array", "items": {"type": "boolean"}}} | NO_ESCAPES,
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {"type": "object", "properties": {}, "additionalProperties": False},
    {"type": "array", "items": {"type": "integer"}},
    {"type": "array", "items": {"type": "null"}, "minItems": 2, "maxItems": 4},
    {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": {"type": "boolean"}, "minItems": 1},
    {"type": "array", "prefixItems": [{"type": "integer"}, {"const": "a"}], "items": False},
    {"anyOf": [{"type": "integer"}, {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}]},
    {"$defs": {"tree": {"type": "object", "properties": {"name": {"type": "string"}, "b": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}, "required": ["name"],
                        "additionalProperties": False}}, "$ref": "#/$defs/tree"},
    {"type": "array", "items": {"$ref": "#"}},
    {"type": "array", "items": {"type": "array", "items": {"enum": [1, 12, "1"]}, "maxItems": 2}},
]


class Vocabulary:
    """What LLTokenizer wants of a tokenizer."""

    eos_token_id = 0
    bos_token_id = None
    special_token_ids = [0]

    def __init__(self, tokens):
        self.tokens = [b"</s>", *tokens]
        self.ids = {token: i for i, token in enumerate(self.tokens) if i > 0}
        self.longest = max(map(len, tokens))

    def __call__(self, text):
        """The longest token from the left; what has none is left out."""
        ids, at = [], 0
        while at < len(text):
            size = next((n for n in range(self.longest, 0, -1) if text[at : at + n] in self.ids), 0)
            ids += [self.ids[text[at : at + size]]] if size else []
            at += size or 1
        return ids


def byte_level_tokens(path):
    """Tokens of a tokenizer.json, without the added ones."""
    chars = [c for c in range(256) if 33 <= c < 127 or 161 <= c < 173 or c >= 174]
    letters = {chr(c): c for c in chars} | {chr(256 + i): c for i, c in enumerate(c for c in range(256) if c not in chars)}
    vocabulary = json.loads(path.read_text())["model"]["vocab"]
    tokens = [bytes(letters[c] for c in token) for token in sorted(vocabulary, key=vocabulary.get) if all(c in letters for c in token)]
    return [t for t in tokens if b"\x7f" not in t and b"/" not in t]


def allowed(matcher, count):
    """The mask as bytes, of `count` ids. Where a certain text must follow, llguidance's has the first token of its encoding alone: there each token is asked for."""
    if not matcher.compute_ff_bytes():
        mask = bytearray(matcher.compute_bitmask()[: (count + 7) // 8])
        if count % 8:
            mask[-1] &= (1 << count % 8) - 1
        return bytes(mask)
    mask = bytearray((count + 7) // 8)
    for i in range(count):
        if matcher.is_accepting() if i == 0 else matcher.validate_tokens([i]) == 1:
            mask[i // 8] |= 1 << i % 8
    return bytes(mask)


def walk(rng, tokenizer, grammar, tokens, length):
    """Masks and tokens of one random text."""
    matcher = LLMatcher(tokenizer, grammar)
    if matcher.is_error():
        raise ValueError(matcher.get_error())
    lines = []
    for _ in range(length):
        mask = allowed(matcher, len(tokens))
        ids = [i for i in range(1, len(tokens)) if mask[i // 8] >> i % 8 & 1]
        if not ids:
            return [*lines, mask.hex()]
        token = rng.choices(ids, [len(tokens[i]) ** 2 for i in ids])[0]
        lines.append(f"{mask.hex()} {token}")
        if not matcher.consume_token(token):
            raise ValueError(matcher.get_error())
    return [*lines, allowed(matcher, len(tokens)).hex()]


def main():
    """Writes the file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("tests/data/constraints"))
    parser.add_argument("--vocabulary", type=pathlib.Path)
    parser.add_argument("--walks", type=int, default=2)
    arguments = parser.parse_args()
    rng = random.Random(5)
    if arguments.vocabulary:
        tokens = byte_level_tokens(arguments.vocabulary)
    else:
        tokens = list(dict.fromkeys([t.encode() for t in PRINTABLE] + SPLIT + [t.encode() for t in LONGER]))
    vocabulary = Vocabulary(tokens)
    tokenizer = LLTokenizer(TokenizerWrapper(vocabulary), n_vocab=len(vocabulary.tokens), eos_token=0, slices=[])
    lines = [f"token {t.hex()}" for t in vocabulary.tokens]
    cases = [("gbnf", text, LLMatcher.grammar_from_lark(gbnf_to_lark(text))) for text in GRAMMARS]
    plain = [{k: v for k, v in schema.items() if k != "x-guidance"} for schema in SCHEMAS]
    cases += [("schema", json.dumps(plain[i], ensure_ascii=False), LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides=JSON_OPTIONS)) for i, schema in enumerate(SCHEMAS)]
    for kind, text, grammar in cases:
        lines.append(f"{kind} {text.encode().hex()}")
        for _ in range(arguments.walks):
            lines += ["walk", *walk(rng, tokenizer, grammar, vocabulary.tokens, 14)]
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "masks.txt").write_text("\n".join(lines) + "\n")


main()
