// Embeddings (tests/data/embeddings): models as sentence-transformers saves them, and what it makes of texts. What it
// says and isn't supported is refused by name.
#include <filesystem>
#include <memory>

#include "runtime/embedding.h"
#include "tests/golden/golden_files.h"
#include "tests/support/expect_error.h"
#include "tests/support/from_memory.h"
#include "tools/pass_context.h"

namespace llmc {
namespace {

const std::string kModels = kData + "embeddings/";

// A model compiled as `llmc run` does it.
struct Compiled {
  Model model;
  Executable executable;
  explicit Compiled(const std::string& path, const std::string& backend = "llvm") {
    ModelOptions options = OptionsFor(path, "f32");
    model = LoadModel(options);
    RunPipeline(model.module, ContextFor(backend));
    PlanRequest request;
    request.module = &model.module;
    request.weights = model.weights.get();
    request.backend = backend;
    request.targets = "native";
    request.pooling = model.pooling;
    executable = FromMemory(std::make_shared<MemoryPlan>(request));
    executable.tokenizer = model.tokenizer;
  }
};

class EmbeddingTest : public testing::TestWithParam<std::string> {};

TEST_P(EmbeddingTest, IsSentenceTransformers) {
  const std::string folder = kModels + GetParam();
  const Json cases = ParseJson(test::ReadBytes(folder + "/golden.json"), "golden.json").Find("cases");
  const std::vector<float> want = ReadNpy(folder + "/embeddings.npy");
  for (const std::string& backend : CompiledBackends()) {
    const Compiled compiled(folder, backend);
    const PlanPooling& pooling = compiled.executable.manifest->pooling;
    EXPECT_EQ(pooling, compiled.model.pooling);
    const Tokenizer tokenizer(compiled.executable.tokenizer);
    std::vector<float> first;
    for (const uint32_t threads : {1U, 2U}) {
      SessionOptions options;
      options.threads = threads;
      Session session(compiled.executable, options);
      std::vector<float> all;
      for (const Json& one : cases.items()) {
        const Json name = FindValue(one, "prompt");
        const std::optional<std::string> prompt = name ? std::optional(std::string(name.AsString())) : std::nullopt;
        for (const Json& text : one.Find("texts").items()) {
          const std::string whole = TextOfEmbedding(pooling, prompt, text.AsString());
          const EmbeddingInput input = EmbeddingInputOf(tokenizer, whole, MostTokens(session, pooling));
          const std::vector<float> row = Embed(session, input, pooling.kind, pooling.normalize);
          const size_t at = all.size();
          ASSERT_LE(at + row.size(), want.size());
          EXPECT_LE(Nmse(row.data(), want.data() + at, row.size()), 1e-9) << backend << ": " << text.AsString();
          all.insert(all.end(), row.begin(), row.end());
        }
      }
      EXPECT_EQ(all.size(), want.size());
      if (first.empty()) first = all;
      EXPECT_TRUE(SameBits(first, all)) << threads << " threads";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, EmbeddingTest, testing::Values("bert-mean", "bert-cls-dense", "gemma-dense", "qwen3-last"));

// The same model as a GGUF file, with its dense layers.
TEST(Embedding, OfAGgufFile) {
  const std::string folder = kModels + "gemma-dense";
  const Compiled from_folder(folder), from_file(folder + "/model.gguf");
  EXPECT_EQ(from_file.model.pooling.kind, PoolingKind::Mean);
  Session a(from_folder.executable, {}), b(from_file.executable, {});
  const EmbeddingInput input{{2, 9, 8, 31, 17, 40, 3}, {}};
  const std::vector<float> want = Embed(a, input, PoolingKind::Mean, true);
  const std::vector<float> got = Embed(b, input, from_file.model.pooling.kind, from_file.model.pooling.normalize);
  ASSERT_EQ(got.size(), 12U);
  ASSERT_EQ(want.size(), got.size());
  EXPECT_LE(Nmse(got.data(), want.data(), got.size()), 1e-12);
}

TEST(Embedding, PoolingAndPromptsThatThereArent) {
  const Compiled compiled(kModels + "bert-mean");
  Session session(compiled.executable, {});
  const EmbeddingInput input{{2, 9, 8, 3}, {}};
  EXPECT_THROW(Embed(session, input, PoolingKind::None, true), PlanError);
  const std::vector<float> mean = Embed(session, input, PoolingKind::Mean, false);
  const std::vector<float> first = Embed(session, input, PoolingKind::First, false);
  EXPECT_FALSE(SameBits(mean, first));
  std::vector<float> rows;
  session.Hidden(input.ids, {}, [&](std::span<const float> row) { rows.insert(rows.end(), row.begin(), row.end()); });
  const size_t width = session.hidden_width();
  EXPECT_TRUE(SameBits(first, {rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(width)}));
  EXPECT_TRUE(SameBits(Embed(session, input, PoolingKind::Last, false),
                       {rows.end() - static_cast<std::ptrdiff_t>(width), rows.end()}));
  EXPECT_THROW(TextOfEmbedding(compiled.model.pooling, "nothing", "x"), PlanError);
  EXPECT_EQ(TextOfEmbedding(compiled.model.pooling, "query", "x"), "query: x");
  EXPECT_EQ(TextOfEmbedding(compiled.model.pooling, std::nullopt, "x"), "x");
}

TEST(Embedding, LongTextsKeepWhatTheTemplateAdds) {
  const Compiled compiled(kModels + "bert-mean");
  const Tokenizer tokenizer(compiled.executable.tokenizer);
  const std::vector<int32_t> whole = tokenizer.Encode("the dog over the fox");
  ASSERT_EQ(whole.size(), 7U);
  const std::vector<int32_t> cut = EmbeddingInputOf(tokenizer, "the dog over the fox", 5).ids;
  EXPECT_EQ(cut, (std::vector<int32_t>{whole[0], whole[1], whole[2], whole[3], whole[6]}));
  EXPECT_THROW(EmbeddingInputOf(tokenizer, "the dog", 2), PlanError);
  const EmbeddingInput pair = PairInputOf(tokenizer, "the dog", "fox", 6);
  EXPECT_EQ(pair.types, (std::vector<int32_t>{0, 0, 0, 0, 1, 1}));
  EXPECT_THROW(PairInputOf(tokenizer, "the dog", "fox", 5), PlanError);
}

// A copy of a model with one file changed.
std::string FaultOf(const std::string& model, const std::string& file, const std::string& from, const std::string& to) {
  const test::TempDir dir;
  std::filesystem::copy(kModels + model, dir.path(), std::filesystem::copy_options::recursive);
  std::string text = test::ReadBytes(dir.path() + "/" + file);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  dir.Write(file, text);
  try {
    LoadModel(OptionsFor(dir.path(), "f32"));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Embedding, WhatIsRefused) {
  const struct {
    const char *model, *file, *from, *to, *says;
  } cases[] = {
      {"bert-mean", "modules.json", "modules.normalize.Normalize", "modules.cnn.CNN",
       "module \"CNN\" is not supported"},
      {"bert-mean", "modules.json", "modules.pooling.Pooling", "modules.dense.Dense", "\"Dense\" in this place"},
      {"bert-mean", "modules.json", "\"1_Pooling\"", "\"../1_Pooling\"", "leads out of the model's folder"},
      {"bert-mean", "modules.json", "\"1_Pooling\"", "\"9_Pooling\"", "the file is missing"},
      {"bert-mean", "1_Pooling/config.json", "\"mean\"", "\"weightedmean\"",
       "pooling \"weightedmean\" is not supported"},
      {"bert-mean", "1_Pooling/config.json", "24", "25", "embedding_dimension is 25, the rows before it have 24"},
      {"bert-mean", "1_Pooling/config.json", "true", "false", "include_prompt false is not supported"},
      {"bert-mean", "1_Pooling/config.json", "\"pooling_mode\": \"mean\"",
       "\"pooling_mode_mean_tokens\": true, \"pooling_mode_max_tokens\": true", "not supported"},
      {"bert-mean", "1_Pooling/config.json", "\"pooling_mode\": \"mean\"", "\"pooling_mode_mean_tokens\": false",
       "no pooling_mode is on"},
      {"bert-mean", "sentence_bert_config.json", "{", "{\"do_lower_case\": true,", "do_lower_case true"},
      {"bert-cls-dense", "3_Dense/config.json", "activation.Tanh", "activation.GELU",
       "activation \"GELU\" of a dense layer"},
      {"bert-cls-dense", "3_Dense/config.json", "\"bias\": true", "\"bias\": false", "there is a linear.bias"},
      {"bert-cls-dense", "2_Dense/config.json", "\"in_features\": 24", "\"in_features\": 20", "in_features is 20"},
      {"bert-cls-dense", "config_sentence_transformers.json", "\"default_prompt_name\": \"passage\"",
       "\"default_prompt_name\": \"other\"", "there is no prompt \"other\""},
      {"bert-mean", "config.json", "\"BertModel\"", "\"BertForSequenceClassification\"",
       "architectures = \"BertForSequenceClassification\""},
      {"bert-mean", "config.json", "\"is_decoder\": false", "\"is_decoder\": true", "is_decoder = true"},
  };
  for (const auto& c : cases) {
    const std::string fault = FaultOf(c.model, c.file, c.from, c.to);
    EXPECT_NE(fault.find(c.says), std::string::npos) << c.file << ": " << c.to << ": " << fault;
  }
}

// Older spellings say the same.
TEST(Embedding, PoolingByFlags) {
  const test::TempDir dir;
  std::filesystem::copy(kModels + "bert-mean", dir.path(), std::filesystem::copy_options::recursive);
  dir.Write("1_Pooling/config.json",
            R"({"word_embedding_dimension": 24, "pooling_mode_cls_token": false, "pooling_mode_mean_tokens": false,
                "pooling_mode_max_tokens": false, "pooling_mode_lasttoken": true})");
  dir.Write("sentence_bert_config.json", R"({"max_seq_length": 9, "do_lower_case": false})");
  const Model model = LoadModel(OptionsFor(dir.path(), "f32"));
  EXPECT_EQ(model.pooling.kind, PoolingKind::Last);
  EXPECT_TRUE(model.pooling.normalize);
  EXPECT_EQ(model.pooling.max_tokens, 9U);
}

}  // namespace
}  // namespace llmc
