// The JSON reader knows where every value stands, refuses what is not strict JSON, and holds bounded memory; the
// writer's text reads back.
#include "frontend/json.h"

#include <string>

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace llmc {
namespace {

using test::ErrorOf;

TEST(Json, ValuesAndPlaces) {
  Json root = ParseJson("{\n  \"a\": [1, -2.5, \"x\\n\\u00e9\"],\n  \"b\": {\"c\": null, \"d\": true}\n}", "f.json");
  ASSERT_EQ(root.size(), 2U);
  Json a = root.Find("a");
  ASSERT_EQ(a.size(), 3U);
  EXPECT_EQ(a.items()[0].AsInt(), 1);
  EXPECT_EQ(a.items()[1].AsDouble(), -2.5);
  EXPECT_EQ(a.items()[2].AsString(), "x\n\xc3\xa9");
  EXPECT_EQ(a.items()[1].place().at, "2:12");
  EXPECT_EQ(a.items()[1].source(), "-2.5");
  Json d = root.Find("b").Find("d");
  EXPECT_TRUE(d.AsBool());
  EXPECT_EQ(d.place().at, "3:25");
  EXPECT_EQ(d.key_place().at, "3:20");
  EXPECT_EQ(d.place().file, "f.json");
  EXPECT_FALSE(root.Find("e"));
  EXPECT_EQ(root.source().size(), root.source().rfind('}') + 1);
}

TEST(Json, PlacesBehindAByteOrderMark) { EXPECT_EQ(ParseJson("\xEF\xBB\xBF{\"a\": 1}", "f").Find("a").AsInt(), 1); }

TEST(Json, LargeIntegersAreNumbers) {
  EXPECT_EQ(ParseJson("9223372036854775807", "f").AsInt(), INT64_MAX);
  EXPECT_EQ(ParseJson("9223372036854775808", "f").kind(), JsonKind::Float);
  EXPECT_EQ(ParseJson("-9223372036854775808", "f").AsInt(), INT64_MIN);
}

TEST(Json, WrongKindNamesPlaceAndKinds) {
  Json root = ParseJson("{\"a\":\n \"x\"}", "f.json");
  std::string message = ErrorOf(DiagKind::BadValue, [&] { root.Find("a").AsInt(); });
  EXPECT_NE(message.find("f.json:2:2: error: must be an integer, is a string"), std::string::npos) << message;
}

TEST(Json, SyntaxErrors) {
  for (const char* text : {"", "{", "[1,]", "{\"a\" 1}", "nul", "1 2", "\"\\x\"", "\"\x01\"", "\"\xff\"", "01", "+1",
                           "NaN", "1e999", "{'a': 1}", "[1] // c"}) {
    ErrorOf(DiagKind::SyntaxError, [&] { ParseJson(text, "f"); });
  }
  std::string message = ErrorOf(DiagKind::SyntaxError, [] { ParseJson("{\n \"a\": tru }", "f.json"); });
  EXPECT_EQ(message.substr(0, 11), "f.json:2:10") << message;
}

TEST(Json, DuplicateKeys) {
  std::string message =
      ErrorOf(DiagKind::DuplicateName, [] { ParseJson("{\"a\": {\"b\": 1,\n \"c\": 2, \"b\": 3}}", "f"); });
  EXPECT_NE(message.find("f:2:10"), std::string::npos) << message;
  EXPECT_NE(message.find("first at 1:8"), std::string::npos) << message;
  ParseJson("{\"a\": {\"b\": 1}, \"b\": 2}", "f");
}

TEST(Json, Limits) {
  JsonLimits limits{1000, 10, 3};
  ParseJson("[[[1]]]", "f", limits);
  ErrorOf(DiagKind::TooLarge, [&] { ParseJson("[[[[1]]]]", "f", limits); });
  ErrorOf(DiagKind::TooLarge, [&] { ParseJson("[1,2,3,4,5,6,7,8,9,10]", "f", limits); });
  ErrorOf(DiagKind::TooLarge, [&] { ParseJson(std::string(1001, ' '), "f", limits); });
  ErrorOf(DiagKind::TooLarge, [&] { ParseJson(std::string(100000, '['), "f"); });
}

TEST(JsonWriter, TextReadsBack) {
  JsonWriter out;
  out.BeginObject()
      .Key("a\"\n")
      .BeginArray()
      .Int(-3)
      .Double(1)
      .Double(1e-5)
      .Double(0.1)
      .Bool(false)
      .Null()
      .String("\x02\\")
      .End()
      .Key("b")
      .BeginObject()
      .End()
      .End();
  std::string text = out.Finish();
  Json root = ParseJson(text, "f");
  Json list = root.Find("a\"\n");
  ASSERT_EQ(list.size(), 7U);
  EXPECT_EQ(list.items()[1].kind(), JsonKind::Float);
  EXPECT_EQ(list.items()[2].AsDouble(), 1e-5);
  EXPECT_EQ(list.items()[3].AsDouble(), 0.1);
  EXPECT_EQ(list.items()[6].AsString(), "\x02\\");
  EXPECT_EQ(root.Find("b").size(), 0U);
}

}  // namespace
}  // namespace llmc
