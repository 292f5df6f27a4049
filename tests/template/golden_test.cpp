// Templates of our own against transformers: tools/golden/templates.py wrote what it gives for each.
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "frontend/file.h"
#include "frontend/json.h"
#include "tests/template/support.h"

namespace llmc {
namespace {

// CASES D02 (tojson), D03 (slices, arithmetic, methods, reasoning that is cut), D05 (role rules), D06 (dates, undefined values) among them.
TEST(TemplateGolden, EveryCaseIsTransformers) {
  const std::string path = LLMC_SOURCE_DIR "/tests/data/templates/cases.json";
  JsonLimits limits;
  limits.max_bytes = uint64_t{16} << 20;
  const Json cases = ParseJson(ReadTextFile(path, limits.max_bytes), path, limits);
  ASSERT_GE(cases.size(), 60u);
  RenderOptions options;
  options.now = {1722006245, 678};  // 2024-07-26 15:04:05.000678 UTC
  for (const Json& one : cases.items()) {
    SCOPED_TRACE(one.Find("name").AsString());
    const Rendered rendered =
        RenderSource(std::string(one.Find("source").AsString()), std::string(one.Find("request").AsString()),
                     {{"bos_token", "<s>"}, {"eos_token", "</s>"}}, options);
    if (const Json text = one.Find("text")) {
      EXPECT_FALSE(rendered.refused || rendered.failed) << rendered.text;
      EXPECT_EQ(rendered.text, text.AsString());
    } else if (const Json failed = one.Find("failed")) {
      EXPECT_TRUE(rendered.failed) << rendered.text;
      // What raise_exception says is passed on; other messages are our own.
      if (const Json message = one.Find("message")) {
        EXPECT_NE(rendered.text.find(message.AsString()), std::string::npos) << rendered.text;
      }
    } else {
      EXPECT_TRUE(rendered.refused) << rendered.text;
    }
  }
}

}  // namespace
}  // namespace llmc
