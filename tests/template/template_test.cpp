// Limits, refusals and damage of chat templates.
#include <string>

#include <gtest/gtest.h>

#include "tests/template/support.h"

namespace llmc {
namespace {

const std::string kHello = R"([{"role": "user", "content": "hi"}])";

Rendered Render(const std::string& source, const std::string& request = kHello, const RenderOptions& options = {}) {
  return RenderSource(source, request, {}, options);
}

TEST(Template, StatementsOfSeveralFilesAreRefusedByName) {
  for (const std::string name : {"block", "extends", "include", "import", "from", "autoescape"}) {
    const Rendered r = Render("a\n{% if x %}{% " + name + " 'a' %}{% endif %}");
    EXPECT_TRUE(r.refused);
    EXPECT_NE(r.text.find("t.jinja:2: "), std::string::npos) << r.text;
    EXPECT_NE(r.text.find("'" + name + "' is not supported"), std::string::npos) << r.text;
  }
  EXPECT_TRUE(Render("{{ self }}").refused);
  EXPECT_TRUE(Render("{{ 'a'|pprint }}").refused);
  EXPECT_TRUE(Render("{{ '\\N{DASH}' }}").refused);
  EXPECT_TRUE(Render("{{ \xC3\xA9 }}").refused);
  EXPECT_TRUE(Render("{{ 'a\xFF' }}").refused);
}

TEST(Template, WhatHasNoKnownTextIsRefusedWhenReached) {
  for (const std::string expression : {"[1]|map('string')", "range", "'a'.upper", "cycler(1)", "lipsum()",
                                       "'a' is sameas 'a'", "'a'.encode()", "[1]|random if 1"}) {
    const Rendered r = Render("{{ " + expression + " }}");
    EXPECT_TRUE(r.failed) << expression << r.text;
    EXPECT_NE(r.text.find("not supported"), std::string::npos) << expression << r.text;
  }
}

TEST(Template, MessagesNameLineAndCause) {
  const Rendered r = Render("a\n{% for m in messages %}\n{{ m.nope.x }}{% endfor %}");
  EXPECT_EQ(r.text, "chat template, line 3: UndefinedError: 'dict object' has no attribute 'nope'");
  EXPECT_EQ(Render("{{ raise_exception('only ' ~ 2) }}").text, "chat template, line 1: only 2");
  EXPECT_EQ(Render("{{ 1 }", kHello).text.substr(0, 10), "t.jinja:1:");
}

TEST(Template, LimitsEndWhatWouldNot) {
  RenderOptions options;
  options.limits.steps = 100'000;
  const auto fails = [&](const std::string& source, const std::string& what) {
    const Rendered r = Render(source, kHello, options);
    EXPECT_TRUE(r.failed) << source << ": " << r.text.substr(0, 100);
    EXPECT_NE(r.text.find(what), std::string::npos) << source << ": " << r.text;
  };
  const std::string loops = "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}";
  fails(loops, "more than 100000 steps");
  fails("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "levels of nesting");
  fails("{% for a in [[]] recursive %}{{ loop([1]) }}{% endfor %}", "levels of nesting");
  options.limits.steps = 1'000'000'000;
  options.limits.output = 1 << 20;
  fails("{{ 'a' * 2000000 }}", "bytes of text");
  fails("{% for a in range(9999) %}{{ 'a' * 1000 }}{% endfor %}", "bytes of text");
  fails("{{ '%2000000000d' % 1 }}", "too big");
  options.limits.memory = 1 << 20;
  fails("{% for a in range(99999) %}{% set x = [a, a, a] %}{% endfor %}", "bytes of memory");
  fails("{% set ns = namespace(x=[]) %}{% for a in range(999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
        "levels of nesting");
  fails("{{ 2 ** 100000 }}", "65536 bits");
  fails("{{ 10 ** 5000 }}", "4300 digits");
  fails("{{ range(100001) }}", "MAX_RANGE");
}

TEST(Template, DeepSourcesAreRefused) {
  for (const auto& [open, close] :
       {std::pair<std::string, std::string>{"(", ")"}, {"[", "]"}, {"not ", ""}, {"-", ""}}) {
    std::string source = "{{ ";
    for (int i = 0; i < 5000; ++i) source += open;
    source += "1";
    for (int i = 0; i < 5000; ++i) source += close;
    EXPECT_TRUE(Render(source + " }}").refused);
  }
  std::string ifs, chain = "{{ a";
  for (int i = 0; i < 5000; ++i) {
    ifs += "{% if a %}";
    chain += ".a";
  }
  EXPECT_TRUE(Render(ifs).refused);
  EXPECT_TRUE(Render(chain + " }}").refused);
}

TEST(Template, NamedTemplatesAreChosenAsTransformersDoes) {
  ChatTemplateSources chat;
  chat.templates = {{"tool_use", "T", "a"}, {"default", "D", "b"}, {"rag", "R", "c"}};
  const std::string section = CompileTemplates(chat);
  const ChatTemplates templates(section, "plan");
  EXPECT_EQ(templates.Render(kHello, "r"), "D");
  EXPECT_EQ(templates.Render(R"({"messages": [{}], "tools": []})", "r"), "T");
  EXPECT_EQ(templates.Render(R"({"messages": [{}], "tools": null})", "r"), "D");
  EXPECT_EQ(templates.Render(R"({"messages": [{}], "chat_template": "rag"})", "r"), "R");
  EXPECT_THROW(templates.Render(R"({"messages": [{}], "chat_template": "x"})", "r"), TemplateError);
  chat.templates.erase(chat.templates.begin() + 1);
  try {
    ChatTemplates(CompileTemplates(chat), "plan").Render(kHello, "r");
    FAIL();
  } catch (const TemplateError& error) {
    EXPECT_NE(std::string(error.what()).find("tool_use, rag"), std::string::npos) << error.what();
  }
}

TEST(Template, RequestsAreChecked) {
  const auto fails = [](const std::string& request, const std::string& what) {
    const Rendered r = Render("x", request);
    EXPECT_TRUE(r.failed) << request;
    EXPECT_NE(r.text.find(what), std::string::npos) << request << ": " << r.text;
  };
  fails("[", "request:1:");
  fails("{}", "messages");
  fails("[]", "at least one message");
  fails("[1]", "message 0 is no object but int");
  fails(R"({"messages": [{}], "tools": [1]})", "`tools` must be an array of objects");
  fails(R"({"messages": [{"content": "a"}], "continue_final_message": true, "add_generation_prompt": true})",
        "not compatible");
  fails("[" + std::string(400, '[') + std::string(400, ']') + "]", "levels deep");
}

TEST(Template, EveryNameHasItsFunction) {
  for (const std::string_view name : TemplateFilterNames()) EXPECT_TRUE(IsKnownFilter(name)) << name;
  for (const std::string_view name : TemplateTestNames()) EXPECT_TRUE(IsKnownTest(name)) << name;
  EXPECT_FALSE(IsKnownFilter("from_json"));
}

TEST(Template, DamagedProgramsAreRefusedOrFail) {
  ChatTemplateSources chat;
  chat.templates = {
      {"default",
       "{% macro f(a, b=1) %}{{ a }}{{ b }}{{ varargs }}{% endmacro %}{% for m in messages if m.role %}{{ "
       "loop.index }}{{ f(m.content, 'x'|upper) }}{% if loop.last %}{% break %}{% endif %}{% else %}none{% "
       "endfor %}{% set x %}a{{ 1 < 2 < 3 }}{% endset %}{{ x[1:] }}{{ {'a': [1, (2,)]} }}",
       "a"}};
  const std::string section = CompileTemplates(chat);
  // The program alone: what is behind are the tables of characters.
  const size_t program =
      section.size() - EncodeTemplates({{}, {}, false, {}, DecodeTemplates(section, "a").tables}).size();
  RenderOptions options;
  options.limits = {10'000, 1 << 16, 1 << 22, 50};
  size_t refused = 0, failed = 0;
  for (size_t at = 0; at < program; ++at) {
    for (const int change : {1, 128, 255}) {
      std::string damaged = section;
      damaged[at] = static_cast<char>(damaged[at] ^ change);
      try {
        const ChatTemplates templates(damaged, "plan");
        try {
          templates.Render(kHello, "r", options);
        } catch (const TemplateError&) {
          ++failed;
        }
      } catch (const TemplateError&) {
        ++failed;
      } catch (const PlanError&) {
        ++refused;
      }
    }
    EXPECT_THROW(ChatTemplates(section.substr(0, at), "plan"), PlanError);
  }
  EXPECT_GT(refused, 100u);
  EXPECT_GT(failed, 100u);
}

}  // namespace
}  // namespace llmc
