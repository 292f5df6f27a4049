// The encoder and decoder over hand-built vocabularies.
#include "runtime/tokenizer.h"

#include <functional>
#include <map>
#include <random>

#include <gtest/gtest.h>
#include <pthread.h>

#include "runtime/plan_error.h"
#include "tests/support/word_classes.h"

namespace llmc {
namespace {

using Ids = std::vector<int32_t>;

// One token a byte, id = byte; merges append tokens.
struct Builder {
  TokenizerTables tables;
  std::map<std::string, int32_t> ids;

  explicit Builder(std::vector<TokenizerStep> cuts = {}) {
    for (int b = 0; b < 256; ++b) {
      tables.byte_ids[static_cast<size_t>(b)] = b;
      Add(std::string(1, static_cast<char>(b)));
    }
    tables.cuts = std::move(cuts);
    tables.word_classes = AsciiWordClasses();
  }
  int32_t Add(const std::string& bytes, uint8_t flags = kTokenInModel) {
    const auto id = static_cast<int32_t>(tables.tokens.size());
    tables.tokens.push_back(bytes);
    tables.token_flags.push_back(flags);
    ids.emplace(bytes, id);
    return id;
  }
  int32_t Merge(const std::string& left, const std::string& right) {
    const auto known = ids.find(left + right);
    const int32_t id = known != ids.end() ? known->second : Add(left + right);
    tables.merges.push_back({ids.at(left), ids.at(right), id});
    return id;
  }
  int32_t AddAdded(const std::string& content, uint32_t flags) {
    const int32_t id =
        Add(content, static_cast<uint8_t>(kTokenAdded | ((flags & kAddedSpecial) != 0 ? kTokenSpecial : 0)));
    tables.added_raw.push_back({content, id, flags});
    return id;
  }
  std::string Section() const { return BuildTokenizerSection(tables); }
};

Ids Encode(const std::string& section, std::string_view text, const EncodeOptions& options = {}) {
  return Tokenizer(section).Encode(text, options);
}

Ids Bytes(std::string_view text) {
  Ids out;
  for (const char c : text) out.push_back(static_cast<uint8_t>(c));
  return out;
}

TEST(Tokenizer, MergesByRankThenFromTheLeft) {
  Builder b;
  const int32_t bc = b.Merge("b", "c");
  const int32_t ab = b.Merge("a", "b");
  const int32_t aa = b.Merge("a", "a");
  const int32_t aaaa = b.Merge("aa", "aa");
  const std::string section = b.Section();
  EXPECT_EQ(Encode(section, "abc"), Ids({'a', bc}));
  EXPECT_EQ(Encode(section, "abd"), Ids({ab, 'd'}));
  EXPECT_EQ(Encode(section, "aaa"), Ids({aa, 'a'}));
  EXPECT_EQ(Encode(section, "aaaaaaa"), Ids({aaaa, aa, 'a'}));
}

TEST(Tokenizer, OfTwoMergesOfAPairTheLaterCounts) {
  Builder b;
  b.Merge("a", "b");
  const int32_t bc = b.Merge("b", "c");
  b.Merge("a", "b");
  EXPECT_EQ(Encode(b.Section(), "abc"), Ids({'a', bc}));
}

// C02: only a whole piece is looked up.
TEST(Tokenizer, IgnoreMerges) {
  Builder b;
  const int32_t ab = b.Merge("a", "b");
  const int32_t abc = b.Add("abc");
  EXPECT_EQ(Encode(b.Section(), "abc"), Ids({ab, 'c'}));
  b.tables.ignore_merges = true;
  EXPECT_EQ(Encode(b.Section(), "abc"), Ids({abc}));
  EXPECT_EQ(Encode(b.Section(), "abcabc"), Ids({ab, 'c', ab, 'c'}));
}

TEST(Tokenizer, BytesWithoutAToken) {
  Builder b;
  b.tables.byte_ids[0xC3] = -1;
  EXPECT_EQ(Encode(b.Section(), "a\xC3\xA9"), Ids({'a', 0xA9}));
  b.tables.byte_ids[0xA9] = -1;
  EXPECT_EQ(Encode(b.Section(), "a\xC3\xA9"), Ids({'a'}));
  b.tables.unk = 0;
  EXPECT_EQ(Encode(b.Section(), "a\xC3\xA9"), Ids({'a', 0, 0}));
  b.tables.fuse_unk = true;
  EXPECT_EQ(Encode(b.Section(), "\xC3\xA9z\xC3"), Ids({0, 'z', 0}));
}

using Texts = std::vector<std::string>;

// " ?[^ ]+| +" behind a space that is put in front: three spaces are a piece of their own, one goes with the word.
TEST(Tokenizer, StepsRunOnThePiecesOfTheOneBefore) {
  Builder b({{StepKind::Prepend, kStepUnlessThere, {}, " "}, SplitStep(WordsAutomaton())});
  const int32_t word = b.Add(" ab"), blanks = b.Add("   ");
  b.tables.ignore_merges = true;
  const std::string section = b.Section();
  EXPECT_EQ(Encode(section, "ab ab"), Ids({word, word}));
  EXPECT_EQ(Encode(section, "ab   ab"), Ids({word, blanks, 'a', 'b'}));
  EXPECT_EQ(Encode(section, ""), Ids());
  b.tables.cuts.pop_back();
  EXPECT_EQ(Encode(b.Section(), "\tab"), Bytes(" \tab"));
}

// Of a segment that is text nothing is read as a control token, wherever the token begins or ends.
TEST(Tokenizer, Segments) {
  Builder b;
  const int32_t special = b.AddAdded("<e>", kAddedSpecial), plain = b.AddAdded("<p>", 0);
  const std::string section = b.Section();
  const Tokenizer tokenizer(section);
  auto encode = [&](std::vector<TextSegment> segments) { return tokenizer.Encode(segments, true); };
  auto joined = [](std::initializer_list<Ids> parts) {
    Ids out;
    for (const Ids& part : parts) out.insert(out.end(), part.begin(), part.end());
    return out;
  };
  EXPECT_EQ(encode({{"<e>a", true}, {"<e><p>", false}, {"<e>", true}}),
            joined({{special}, Bytes("a<e>"), {plain}, {special}}));
  EXPECT_EQ(encode({{"<", true}, {"e>", false}, {"<e", true}, {">", true}}), joined({Bytes("<e>"), {special}}));
  EXPECT_EQ(encode({{"<e", false}, {">", true}}), Bytes("<e>"));
  EXPECT_EQ(encode({}), Ids());
  EXPECT_EQ(encode({{"", false}, {"<e>", true}, {"", false}}), Ids({special}));
}

// Offsets are whole characters of the text.
TEST(Tokenizer, Offsets) {
  Builder b({{StepKind::Prepend, kStepUnlessThere, {}, " "}, SplitStep(WordsAutomaton())});
  const int32_t special = b.AddAdded("<e>", kAddedSpecial);
  b.tables.bos = special;
  b.tables.single = {{special, 0}, {kTemplateFirst, 1}};
  const std::string section = b.Section();
  const Encoding e = Tokenizer(section).EncodeWithOffsets("\xC3\xA9<e>b");
  EXPECT_EQ(e.ids, Ids({special, ' ', 0xC3, 0xA9, special, ' ', 'b'}));
  const std::vector<std::pair<uint32_t, uint32_t>> want = {{0, 0}, {0, 2}, {0, 2}, {0, 2}, {2, 5}, {5, 6}, {5, 6}};
  ASSERT_EQ(e.offsets.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(e.offsets[i].begin, want[i].first) << i;
    EXPECT_EQ(e.offsets[i].end, want[i].second) << i;
  }
  EXPECT_EQ(e.types, std::vector<uint32_t>({0, 1, 1, 1, 1, 1, 1}));
}

// C04: five sets of flags on "<M>".
TEST(Tokenizer, AddedTokenFlags) {
  struct Row {
    uint32_t flags;
    std::string text, before, after;  // what is left around the token; "" and "" and no token for `none`
    bool found = true;
  };
  const std::vector<Row> rows = {
      {0, "a <M>\n\nb", "a ", "\n\nb"},
      {kAddedStripRight, "a <M>\n\nb", "a ", "b"},
      {kAddedStripLeft, "a <M>\n\nb", "a", "\n\nb"},
      {kAddedStripLeft | kAddedStripRight, "a \t<M> \n", "a", ""},
      {kAddedSingleWord, "x<M>y", "", "", false},
      {kAddedSingleWord, "_<M>", "", "", false},
      {kAddedSingleWord, "<M>9", "", "", false},
      {kAddedSingleWord, "x <M>!", "x ", "!"},
      {kAddedStripLeft, "  <M>", "", ""},
  };
  for (const Row& row : rows) {
    Builder b;
    const int32_t id = b.AddAdded("<M>", row.flags);
    Ids want = Bytes(row.found ? row.before : row.text);
    if (row.found) {
      want.push_back(id);
      const Ids rest = Bytes(row.after);
      want.insert(want.end(), rest.begin(), rest.end());
    }
    EXPECT_EQ(Encode(b.Section(), row.text), want) << row.text << " " << row.flags;
  }
}

TEST(Tokenizer, TheLongestAddedTokenFromTheLeft) {
  Builder b;
  const int32_t ab = b.AddAdded("ab", 0), abcd = b.AddAdded("abcd", 0), bc = b.AddAdded("bc", 0);
  const std::string section = b.Section();
  EXPECT_EQ(Encode(section, "abc"), Ids({ab, 'c'}));
  EXPECT_EQ(Encode(section, "abcd"), Ids({abcd}));
  EXPECT_EQ(Encode(section, "bcab"), Ids({bc, ab}));
}

// C16.
TEST(Tokenizer, SpecialTokensAsText) {
  Builder b;
  const int32_t special = b.AddAdded("<e>", kAddedSpecial), plain = b.AddAdded("<p>", 0);
  const std::string section = b.Section();
  EXPECT_EQ(Encode(section, "<e><p>"), Ids({special, plain}));
  EXPECT_EQ(Encode(section, "<e><p>", {.parse_special = false}), Ids({'<', 'e', '>', plain}));
  const Tokenizer tokenizer(section);
  EXPECT_TRUE(tokenizer.IsSpecial(special));
  EXPECT_FALSE(tokenizer.IsSpecial(plain));
  EXPECT_FALSE(tokenizer.IsSpecial(-1));
  EXPECT_EQ(tokenizer.Decode(Ids({'a', special, plain})), "a<e><p>");
  EXPECT_EQ(tokenizer.Decode(Ids({'a', special, plain}), true), "a<p>");
}

// C05, E14: BOS once, never twice, never invented.
TEST(Tokenizer, Bos) {
  Builder b;
  b.tables.bos = b.AddAdded("<s>", kAddedSpecial);
  EXPECT_EQ(Encode(b.Section(), "a"), Ids({'a'}));
  EXPECT_EQ(Encode(b.Section(), ""), Ids());
  b.tables.single = {{b.tables.bos, 0}, {kTemplateFirst, 0}};
  const std::string section = b.Section();
  EXPECT_EQ(Encode(section, "a"), Ids({b.tables.bos, 'a'}));
  EXPECT_EQ(Encode(section, "<s>a"), Ids({b.tables.bos, 'a'}));
  EXPECT_EQ(Encode(section, ""), Ids({b.tables.bos}));
  EXPECT_EQ(Encode(section, "a", {.add_special = false}), Ids({'a'}));
}

TEST(Tokenizer, EveryByteStringRoundTrips) {
  const std::string section = Builder({SplitStep(WordsAutomaton())}).Section();
  const Tokenizer tokenizer(section);
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string text(random() % 20, '\0');
    for (char& c : text) c = static_cast<char>(random() % 3 == 0 ? 0x80 | (random() % 128) : random() % 128);
    std::string back;
    for (const int32_t id : tokenizer.Encode(text)) back += tokenizer.TokenText(id);
    EXPECT_EQ(back, text);
  }
}

// C08 with one token a byte.
TEST(Tokenizer, StreamingNeverSplitsACharacter) {
  const std::string section = Builder().Section();
  const Tokenizer tokenizer(section);
  auto stream = [&](std::string_view bytes) {
    StreamDecoder decoder(tokenizer);
    Texts out;
    for (const char c : bytes) out.push_back(decoder.Push(static_cast<uint8_t>(c)));
    out.push_back(decoder.Finish());
    return out;
  };
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(stream("\xF0\x9F\xA4\x97"), Texts({"", "", "", "\xF0\x9F\xA4\x97", ""}));
  EXPECT_EQ(stream("\xE9\x80"), Texts({"", "", bad}));
  EXPECT_EQ(stream("\xE9\x80z"), Texts({"", "", bad + "z", ""}));
  EXPECT_EQ(stream("\x80z"), Texts({bad, "z", ""}));
  EXPECT_EQ(stream("\xFFz"), Texts({bad, "z", ""}));
  EXPECT_EQ(stream("\xED\xA0\x80"), Texts({"", bad + bad, bad, ""}));           // a surrogate
  EXPECT_EQ(stream("\xF4\x90\x80\x80"), Texts({"", bad + bad, bad, bad, ""}));  // beyond U+10FFFF
  EXPECT_EQ(stream("\xC0\xAF"), Texts({bad, bad, ""}));                         // overlong
  EXPECT_EQ(stream("\xE9\xC3\xA9"), Texts({"", bad, "\xC3\xA9", ""}));

  std::mt19937 random(2);
  for (int i = 0; i < 2000; ++i) {
    Ids ids(random() % 12);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % 4 == 0 ? random() % 128 : 0x80 | (random() % 128));
    StreamDecoder decoder(tokenizer);
    std::string text;
    for (const int32_t id : ids) text += decoder.Push(id);
    EXPECT_EQ(text + decoder.Finish(), tokenizer.Decode(ids));
    const Utf8Prefix whole = text.empty() ? Utf8Prefix{} : ClassifyUtf8(text);
    EXPECT_NE(whole.state, Utf8State::Incomplete);
  }
}

// A20.
TEST(Tokenizer, IdsBeyondTheTokenizerAreEmpty) {
  const std::string section = Builder().Section();
  const Tokenizer tokenizer(section);
  EXPECT_EQ(tokenizer.Decode(Ids({'a', 256, 100000, -1, 'b'})), "ab");
  EXPECT_EQ(tokenizer.TokenText(256), "");
}

void OnSmallStack(const std::function<void()>& body) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, size_t{256} << 10), 0);
  pthread_t thread;
  auto run = [](void* argument) -> void* {
    (*static_cast<const std::function<void()>*>(argument))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, const_cast<void*>(static_cast<const void*>(&body))), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

// C07: long runs take a bounded number of steps a byte, and no stack.
TEST(Tokenizer, LongRunsAreLinear) {
  Builder b;
  for (const char c : {'a', ' ', '-', '\n', '0'}) {
    std::string run(1, c);
    for (int i = 0; i < 6; ++i, run += run) b.Merge(run, run);
  }
  b.AddAdded("  \n  ", kAddedStripLeft | kAddedStripRight);
  b.AddAdded(std::string(kMaxAddedTokenBytes, '\t'), 0);
  b.AddAdded("\t", kAddedStripRight);
  const std::string section = b.Section();
  const Tokenizer tokenizer(section);
  for (const std::string unit :
       {"a", " ", "-", "\n", "0", "'", " a", " \n", "  x", "\xE3\x81\x82", "\xF0\x80", "\t", "  \n  "}) {
    for (const size_t size : {size_t{1000}, size_t{unit[0] == '\t' ? 5000U : 20000U}}) {
      std::string text;
      while (text.size() < size) text += unit;
      Tokenizer::Work work;
      const Ids ids = tokenizer.Encode(text, {}, work);
      const size_t per_byte = unit[0] == '\t' ? 4 * kMaxAddedTokenBytes : 32;
      EXPECT_LE(work.steps, text.size() * per_byte) << unit << " " << size;
      EXPECT_LE(ids.size(), 2 * text.size());
    }
  }
  OnSmallStack([&] { EXPECT_EQ(tokenizer.Encode(std::string(1000000, 'a')).size(), 1000000U / 64); });
}

TEST(TokenizerSection, TheSameTablesGiveTheSameBytes) { EXPECT_EQ(Builder().Section(), Builder().Section()); }

TEST(TokenizerSection, TheWriterRefusesWhatBreaksALimit) {
  auto refused = [](const std::function<void(Builder&)>& change, const std::string& part) {
    Builder b;
    change(b);
    try {
      b.Section();
      ADD_FAILURE() << part;
    } catch (const PlanError& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  refused([](Builder& b) { b.AddAdded(std::string(kMaxAddedTokenBytes + 1, 'x'), 0); }, "513 bytes, the limit is 512");
  refused([](Builder& b) { b.AddAdded("", 0); }, "is empty");
  refused([](Builder& b) { b.AddAdded("x", 0), b.AddAdded("x", 0); }, "is there twice");
  refused([](Builder& b) { b.tables.added_raw.push_back({"x", 256, 0}); }, "added token id 256 is outside 0..256");
  refused([](Builder& b) { b.tables.merges.push_back({1, 2, 256}); }, "merge id 256 is outside 0..256");
  refused([](Builder& b) { b.tables.bos = 300; }, "bos id 300");
  refused([](Builder& b) { b.tables.byte_ids[7] = -2; }, "byte token id -2");
  refused([](Builder& b) { b.tables.single = {{300, 0}}; }, "template id 300");
  refused([](Builder& b) { b.tables.cuts.resize(17); }, "17 steps, the limit is 16");
  refused([](Builder& b) { b.tables.model = TokenizerModel::WordPiece; }, "unk id -1");
  refused([](Builder& b) { b.tables.model = TokenizerModel::Unigram, b.tables.unk = 0; }, "scores and tokens differ");
  refused([](Builder& b) { b.tables.token_flags.pop_back(); }, "differ in number");
}

TEST(TokenizerSection, DamagedSectionsAreRefusedOrHarmless) {
  Builder b({{StepKind::Prepend, kStepUnlessThere, {}, " "}, SplitStep(WordsAutomaton())});
  b.Merge("a", "b");
  b.AddAdded("<s>", kAddedSpecial | kAddedStripRight);
  b.tables.added_normalized.push_back({"ab!", 5, kAddedSingleWord});
  b.tables.ignore_merges = true;
  const std::string good = b.Section();
  size_t refused = 0;
  auto use = [&](const std::string& section) {
    try {
      const Tokenizer tokenizer(section);
      tokenizer.Decode(tokenizer.Encode("ab<s> ab! \xC3\xA9 12 \n"));
      tokenizer.Decode(Ids({0, 255, 256, 257, 1 << 30}));
    } catch (const PlanError&) {
      ++refused;
    }
  };
  for (size_t size = 0; size < sizeof(TokenizerHeader) + 16; ++size) use(good.substr(0, size));
  EXPECT_EQ(refused, sizeof(TokenizerHeader) + 16);
  for (size_t at = 0; at < good.size(); ++at) {
    for (const uint8_t flip : {uint8_t{0x01}, uint8_t{0x80}, uint8_t{0xFF}}) {
      std::string bad = good;
      bad[at] = static_cast<char>(static_cast<uint8_t>(bad[at]) ^ flip);
      use(bad);
    }
  }
  for (size_t i = 0; i < kTokenizerMagic.size() + 4; ++i) {
    std::string bad = good;
    bad[i] = '\x7F';
    EXPECT_THROW(Tokenizer{bad}, PlanError) << i;
  }
}

}  // namespace
}  // namespace llmc
