// --chat: a conversation on a terminal, or on a pipe, one message a line.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>

#include <unistd.h>

#include "runtime/answer.h"
#include "runtime/chat_prompt.h"
#include "runtime/chat_stream.h"
#include "runtime/chat_template.h"
#include "runtime/line_editor.h"
#include "runtime/plan_io.h"
#include "runtime/report.h"
#include "runtime/tokenizer.h"

namespace llmc {
namespace {

constexpr size_t kPrefillStep = 256;  // tokens between looks at Ctrl-C, and steps of the progress bar
constexpr size_t kBarFrom = 1024;     // tokens from which a prefill has a bar

std::atomic<bool> interrupted;  // by SIGINT
static_assert(std::atomic<bool>::is_always_lock_free);
void Interrupt(int /*signal*/) { interrupted.store(true); }

constexpr const char* kHelp =
    "/reset          forget the conversation (the system message stays)\n"
    "/system [TEXT]  set the system message and begin anew; without TEXT there is none\n"
    "/save FILE      write the conversation as JSON, which --messages and /load take\n"
    "/load FILE      continue such a conversation\n"
    "/stats          tokens and speed\n"
    "/exit           end (or Ctrl-D)\n"
    "Ctrl-C stops an answer, and clears a line.\n";

class Chat {
 public:
  explicit Chat(RunState& run)
      : run_(run),
        tokenizer_(NeedTokenizer(run)),
        sampler_options_(SamplerOf(run, run.options.count.value_or(kDefaultCount))),
        terminal_(isatty(STDIN_FILENO) != 0),
        color_(isatty(STDOUT_FILENO) != 0),
        bar_(isatty(STDERR_FILENO) != 0) {}

  void Run() {
    RenderChat(run_.executable, "[" + ChatMessage("user", "") + "]", "chat");  // a plan without a template ends here
    if (sampler_options_.temperature != 0)
      std::fprintf(stderr, "seed %llu\n", static_cast<unsigned long long>(sampler_options_.seed));
    else
      SayWhatGreedyIgnores(run_.options);
    if (terminal_)
      OnTerminal();
    else
      OnPipe();
  }

 private:
  static Tokenizer NeedTokenizer(const RunState& run) {
    if (run.executable.tokenizer.empty()) throw PlanError("the plan has no tokenizer: there is no chat with it");
    return Tokenizer(run.executable.tokenizer);
  }

  void OnTerminal() {
    struct sigaction action{}, before{};
    action.sa_handler = Interrupt;
    sigaction(SIGINT, &action, &before);
    std::fprintf(stderr, "/help lists commands\n");
    LineEditor editor(STDIN_FILENO, STDERR_FILENO);
    while (const std::optional<std::string> line = editor.Read("> ")) {
      if (line->empty()) continue;
      try {
        if (line->front() == '/' ? !Command(*line) : (Turn(*line), false)) break;
      } catch (const PlanError& error) {
        // What is wrong with one message or command doesn't end the conversation.
        std::fprintf(stderr, "%s\n", error.what());
      }
    }
    sigaction(SIGINT, &before, nullptr);
  }

  void OnPipe() {
    std::string line;
    for (bool more = true; more;) {
      const int c = std::getc(stdin);
      more = c != EOF;
      if (more && c != '\n') {
        line.push_back(static_cast<char>(c));
        continue;
      }
      if (!line.empty() && line.back() == '\r') line.pop_back();
      if (!line.empty()) Turn(line);
      line.clear();
    }
    if (std::ferror(stdin) != 0) throw PlanError(std::string("standard input: can't read: ") + std::strerror(errno));
  }

  // False: end.
  bool Command(const std::string& line) {
    const size_t blank = std::min(line.find(' '), line.size());
    const std::string name = line.substr(0, blank);
    const std::string rest = blank < line.size() ? line.substr(blank + 1) : "";
    if (name == "/exit" || name == "/quit") return false;
    if (name == "/help") {
      std::fputs(kHelp, stderr);
    } else if (name == "/reset") {
      messages_.clear();
    } else if (name == "/system") {
      system_ = rest.empty() ? "" : ChatMessage("system", rest);
      messages_.clear();
    } else if (name == "/save" && !rest.empty()) {
      Save(rest);
      std::fprintf(stderr, "%zu messages\n", messages_.size());
    } else if (name == "/load" && !rest.empty()) {
      std::vector<std::string> loaded = ReadMessages(ReadWholeFile(rest), rest);
      system_.clear();
      messages_ = std::move(loaded);
      std::fprintf(stderr, "%zu messages\n", messages_.size());
    } else if (name == "/stats") {
      Stats();
    } else {
      std::fprintf(stderr, "%s isn't a command, or lacks a file's name (/help)\n", name.c_str());
    }
    return true;
  }

  std::string Request() const {
    std::string list;
    const auto add = [&](const std::string& message) { list += (list.empty() ? "" : ", ") + message; };
    if (!system_.empty()) add(system_);
    for (const std::string& message : messages_) add(message);
    return "{\"messages\": [" + list + "]}\n";
  }

  void Save(const std::string& path) const {
    const std::string text = Request();
    FILE* file = std::fopen(path.c_str(), "wbe");
    if (file == nullptr) throw PlanError(path + ": can't write: " + std::strerror(errno));
    const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    if (std::fclose(file) == 0 && written) return;
    const int error = errno;
    std::remove(path.c_str());
    throw PlanError(path + ": can't write: " + std::strerror(error));
  }

  void Stats() const {
    std::fprintf(
        stderr,
        "%zu of %u positions; last prompt: %zu tokens, %zu of them kept from before, %.1f tokens/s; last answer: "
        "%zu tokens, %.1f tokens/s, stop: %s\n",
        fed_.size(), run_.session.context(), prompt_tokens_, reused_, prompt_rate_, answer_tokens_, answer_rate_,
        stop_.c_str());
  }

  // The tokens before the last few, in steps. False: interrupted.
  bool Prefill(std::span<const int32_t>& rest) {
    const size_t all = rest.size();
    const bool bar = bar_ && all >= kBarFrom;
    while (rest.size() > kPrefillStep && !interrupted.load()) {
      run_.session.Prefill(rest.first(kPrefillStep));
      fed_.insert(fed_.end(), rest.begin(), rest.begin() + kPrefillStep);
      rest = rest.subspan(kPrefillStep);
      if (!bar) continue;
      const size_t done = 30 * (all - rest.size()) / all;
      std::fprintf(stderr, "\r[%s%s] %3zu%%", std::string(done, '#').c_str(), std::string(30 - done, '.').c_str(),
                   100 * (all - rest.size()) / all);
    }
    if (bar) std::fprintf(stderr, "\r\x1b[K");
    return !interrupted.load();
  }

  void Turn(const std::string& text) {
    messages_.push_back(ChatMessage("user", text));
    std::string answer;
    try {
      answer = Reply();
    } catch (const PlanError&) {
      messages_.pop_back();
      throw;
    }
    messages_.push_back(ChatMessage("assistant", answer));
  }

  // What the model says to the conversation. Tokens that the session has from before are not computed again.
  std::string Reply() {
    interrupted.store(false);
    const std::string request = Request();
    const std::vector<int32_t> prompt = EncodeChat(run_.executable, request, "chat", run_.options.parse_special);
    if (prompt.empty()) throw PlanError("the chat template makes an empty prompt");
    const uint32_t context = run_.session.context();
    if (prompt.size() > context)
      throw PlanError("the conversation has " + std::to_string(prompt.size()) + " tokens, the context holds " +
                      std::to_string(context) + ": /reset begins anew");
    const uint32_t most =
        std::min<uint32_t>(run_.options.count.value_or(context), context - static_cast<uint32_t>(prompt.size()));
    size_t kept = static_cast<size_t>(std::mismatch(prompt.begin(), prompt.end(), fed_.begin(), fed_.end()).first -
                                      prompt.begin());
    kept = std::min(kept, prompt.size() - 1);  // its logits are needed
    if (!run_.session.Rewind(static_cast<uint32_t>(kept))) {
      run_.session.Reset();
      kept = 0;
    }
    fed_.resize(kept);
    prompt_tokens_ = prompt.size();
    reused_ = kept;
    answer_tokens_ = 0;

    const uint64_t start = NowNanoseconds();
    uint64_t first = start;
    ChatStream stream(color_);
    if (OpensReasoning(RenderChat(run_.executable, request, "chat"))) stream.BeginReasoning();
    StreamDecoder decoder(tokenizer_, true);
    std::string answer;
    const auto show = [&](const std::string& piece) {
      answer += piece;
      WriteOut(stream.Push(piece));
    };
    std::span<const int32_t> rest = std::span(prompt).subspan(kept);
    stop_ = "interrupted";
    if (Prefill(rest)) {
      std::vector<int32_t> ids;
      const size_t before = fed_.size();
      try {
        sampler_options_.rules.limit = most;
        Sampler sampler(sampler_options_, prompt);
        ++sampler_options_.seed;
        const std::span<const float> logits = run_.session.Prefill(rest);
        stop_ = Answer(run_, sampler, prompt, logits, most, [&](std::span<const float>, int32_t id, bool ends) {
          if (ends) return true;
          if (ids.empty()) first = NowNanoseconds();
          if (interrupted.load()) return false;
          ids.push_back(id);
          show(decoder.Push(id));
          return true;
        });
      } catch (...) {
        fed_.clear();  // what the session holds isn't known
        run_.session.Reset();
        WriteOut(stream.Finish());
        throw;
      }
      answer_tokens_ = ids.size();
      // The session has the prompt and the answer's tokens up to its position.
      fed_.insert(fed_.end(), rest.begin(), rest.end());
      fed_.insert(fed_.end(), ids.begin(), ids.end());
      fed_.resize(std::max<size_t>(before, run_.session.position()));
    }
    show(decoder.Finish());
    WriteOut(stream.Finish() + "\n");
    const uint64_t end = NowNanoseconds();
    const auto rate = [](size_t tokens, uint64_t nanoseconds) {
      return nanoseconds > 0 ? static_cast<double>(tokens) * 1e9 / static_cast<double>(nanoseconds) : 0;
    };
    prompt_rate_ = rate(prompt_tokens_ - reused_, first - start);
    answer_rate_ = rate(answer_tokens_ > 0 ? answer_tokens_ - 1 : 0, end - first);
    if (stop_ == "interrupted" && terminal_) std::fprintf(stderr, "(stopped)\n");
    if (stop_ == "length") std::fprintf(stderr, "(the limit of tokens is reached)\n");
    return answer;
  }

  RunState& run_;
  Tokenizer tokenizer_;
  SamplerOptions sampler_options_;  // of the next answer: each has its own draws
  bool terminal_, color_, bar_;
  std::string system_;                 // JSON; "": none
  std::vector<std::string> messages_;  // JSON
  std::vector<int32_t> fed_;           // what the session holds
  size_t prompt_tokens_ = 0, reused_ = 0, answer_tokens_ = 0;
  double prompt_rate_ = 0, answer_rate_ = 0;
  std::string stop_ = "none yet";
};

}  // namespace

std::string ChatMessage(std::string_view role, std::string_view content) {
  std::string text = JsonObject().Text("role", role).Text("content", content).Finish();
  text.pop_back();  // the line end
  return text;
}

void RunChat(RunState& run) { Chat(run).Run(); }

}  // namespace llmc
