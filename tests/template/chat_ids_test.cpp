// Ids of conversations against transformers: tools/golden/chat_ids.py.
#include <string>

#include <gtest/gtest.h>

#include "frontend/chat_source.h"
#include "frontend/file.h"
#include "frontend/json.h"
#include "frontend/tokenizer.h"
#include "runtime/chat_prompt.h"
#include "runtime/chat_stream.h"
#include "runtime/plan_error.h"

namespace llmc {
namespace {

const std::string kFolder = LLMC_SOURCE_DIR "/tests/data/chat";

std::vector<int32_t> Ids(const Json& list) {
  std::vector<int32_t> ids;
  for (const Json& id : list.items()) ids.push_back(static_cast<int32_t>(id.AsInt()));
  return ids;
}

TEST(ChatIds, AreTransformers) {
  std::vector<InputHash> inputs;
  const auto tokenizer = LoadHfTokenizer(kFolder, 0, inputs);
  ASSERT_TRUE(tokenizer);
  const std::string chat = CompileTemplates(HfChat(kFolder));
  Executable executable;
  executable.tokenizer = tokenizer->section;
  executable.chat = chat;
  const Json cases = ParseJson(ReadTextFile(kFolder + "/ids.json", 1 << 20), "ids.json");
  ASSERT_GE(cases.size(), 9u);
  for (const Json& one : cases.items()) {
    const std::string request(one.Find("request").AsString());
    SCOPED_TRACE(request);
    EXPECT_EQ(RenderChat(executable, request, "request"), one.Find("text").AsString());
    EXPECT_EQ(EncodeChat(executable, request, "request", true), Ids(one.Find("parsed")));
    if (const Json sanitized = one.Find("sanitized")) {
      EXPECT_EQ(EncodeChat(executable, request, "request", false), Ids(sanitized));
    }
  }
  executable.chat = {};
  EXPECT_THROW(RenderChat(executable, "[]", "request"), PlanError);
  executable.chat = chat;
  executable.tokenizer = {};
  EXPECT_THROW(EncodeChat(executable, "[{}]", "request", true), PlanError);
}

TEST(ChatStream, DimsReasoningHoweverItIsCut) {
  const std::string text = "a <b> <think>\nx < y</thin </think>\n\nZ<thi";
  const std::string styled = "a <b> \x1b[2m<think>\nx < y</thin </think>\x1b[0m\n\nZ<thi";
  for (size_t cut = 1; cut <= text.size(); ++cut) {
    ChatStream stream(true), plain(false);
    std::string out, raw;
    for (size_t at = 0; at < text.size(); at += cut) {
      out += stream.Push(text.substr(at, cut));
      raw += plain.Push(text.substr(at, cut));
    }
    EXPECT_EQ(out + stream.Finish(), styled);
    EXPECT_EQ(raw + plain.Finish(), text);
  }
  EXPECT_TRUE(OpensReasoning("<|assistant|><think>\n"));
  EXPECT_FALSE(OpensReasoning("<think>\n\n</think>\n\n"));
  ChatStream inside(true);
  inside.BeginReasoning();
  std::string reasoning = inside.Push("r");
  reasoning += inside.Finish();
  EXPECT_EQ(reasoning, "\x1b[2mr\x1b[0m");
}

}  // namespace
}  // namespace llmc
