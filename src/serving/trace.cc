#include "serving/trace.h"

#include <algorithm>
#include <chrono>
#include <istream>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/fault.h"
#include "base/interrupt.h"
#include "base/text_file.h"
#include "base/utf8.h"
#include "serving/text.h"

namespace opentrn::serving {
namespace {

// Tokens that one of Mooncake's hash ids names (kvcache-ai/Mooncake, FAST25-release/README).
constexpr int32_t kMooncakeSegment = 512;
// No model takes more, and sums of two of them stay whole.
constexpr int64_t kTokensMax = 1 << 28;
constexpr size_t kTraceRequestsMax = 100'000'000;
constexpr double kSecondsMax = static_cast<double>(kPsMax) / kPsPerSecond;

class Reader {
 public:
  Reader(std::istream& in, const std::string& name, size_t limit) : in_(in), name_(name), limit_(limit) {}

  Trace read(TraceFormat format) {
    std::string first;
    while (next(first) && trimmed(first).empty()) {
    }
    if (trimmed(first).empty()) fail("it holds no request", "one request per line");
    if (format == TraceFormat::kDetect) format = detected(trimmed(first));
    switch (format) {
      case TraceFormat::kAzure: read_csv(first, "azure", "TIMESTAMP,ContextTokens,GeneratedTokens"); break;
      case TraceFormat::kPlain: read_csv(first, "plain", "arrival_s,prompt_tokens,output_tokens"); break;
      default: read_json(first, format == TraceFormat::kMooncake); break;
    }
    finish();
    return std::move(trace_);
  }

 private:
  [[noreturn]] void fail(const std::string& why, std::string hint) const {
    throw Fault(FaultKind::kInput, "serving.trace", fmt::format("{}, line {}: {}", name_, line_, why),
                std::move(hint));
  }

  bool next(std::string& line) {
    if (!next_line(in_, line, name_, "serving.trace")) return false;
    ++line_;
    return true;
  }

  bool full() const { return limit_ != 0 && trace_.requests.size() >= limit_; }

  TraceFormat detected(std::string_view line) const {
    if (line.starts_with("TIMESTAMP")) return TraceFormat::kAzure;
    if (line.starts_with("arrival_s")) return TraceFormat::kPlain;
    if (line.starts_with('{')) {
      if (line.find("\"hash_ids\"") != std::string_view::npos) return TraceFormat::kMooncake;
      if (line.find("\"input_toks\"") != std::string_view::npos) return TraceFormat::kLlmServingSim;
    }
    fail(fmt::format("the first line is of no known format: {}", printable(line.substr(0, 80))),
         "TIMESTAMP,ContextTokens,GeneratedTokens (azure), arrival_s,prompt_tokens,output_tokens (plain), or "
         "JSON lines of Mooncake or LLMServingSim");
  }

  int32_t tokens(std::optional<int64_t> count, const char* what) const {
    if (!count || *count < 0 || *count > kTokensMax)
      fail(fmt::format("no count of {} tokens", what), fmt::format("a whole number up to {}", kTokensMax));
    return static_cast<int32_t>(*count);
  }

  void add(double arrival_s, std::optional<int64_t> prompt, std::optional<int64_t> output,
           PromptContent content) {
    if (!(arrival_s >= -kSecondsMax && arrival_s <= kSecondsMax))
      fail(fmt::format("it comes at {} s", arrival_s), fmt::format("at most {:.0f} s", kSecondsMax));
    if (trace_.requests.size() >= kTraceRequestsMax) fail("too many requests", "give a limit");
    trace_.requests.push_back(
        {ps_of_seconds(arrival_s), tokens(prompt, "prompt"), tokens(output, "output"), std::move(content)});
  }

  void read_csv(const std::string& header, const char* format, std::string_view expected) {
    trace_.format = format;
    if (trimmed(header) != expected)
      fail(fmt::format("the header is '{}'", printable(trimmed(header).substr(0, 80))),
           std::string(expected));
    const bool dated = trace_.format == "azure";
    for (std::string line; !full() && next(line);) {
      interrupt::poll();
      if (trimmed(line).empty()) continue;
      const auto cells = split(trimmed(line), ',');
      if (cells.size() != 3) fail(fmt::format("{} cells", cells.size()), std::string(expected));
      const auto at = dated ? date_seconds(trimmed(cells[0])) : number_of(trimmed(cells[0]));
      if (!at)
        fail(fmt::format("'{}' is not a time", printable(cells[0].substr(0, 40))),
             dated ? "YYYY-MM-DD hh:mm:ss.fffffff" : "seconds");
      add(*at, number_of<int64_t>(trimmed(cells[1])), number_of<int64_t>(trimmed(cells[2])), {});
    }
  }

  // Seconds since the first such date, exact to the digits of the file: doubles hold 2^53 of 100 ns.
  std::optional<double> date_seconds(std::string_view text) {
    if (text.size() < 19 || text[4] != '-' || text[7] != '-' || text[13] != ':' || text[16] != ':')
      return std::nullopt;
    const auto year = number_of<int>(text.substr(0, 4)), month = number_of<int>(text.substr(5, 2)),
               day = number_of<int>(text.substr(8, 2)), hour = number_of<int>(text.substr(11, 2)),
               minute = number_of<int>(text.substr(14, 2));
    std::string_view rest = text.substr(17);
    if (const size_t zone = rest.find('+'); zone != std::string_view::npos) rest = rest.substr(0, zone);
    const auto second = number_of(rest);
    if (!year || !month || !day || !hour || !minute || !second) return std::nullopt;
    const std::chrono::year_month_day date{std::chrono::year{*year},
                                           std::chrono::month{static_cast<unsigned>(*month)},
                                           std::chrono::day{static_cast<unsigned>(*day)}};
    if (!date.ok() || *hour < 0 || *hour > 23 || *minute < 0 || *minute > 59 || *second < 0 || *second >= 61)
      return std::nullopt;
    const int64_t whole =
        std::chrono::sys_days{date}.time_since_epoch().count() * 86400LL + *hour * 3600 + *minute * 60;
    if (!epoch_) epoch_ = whole;
    return static_cast<double>(whole - *epoch_) + *second;
  }

  void read_json(std::string line, bool mooncake) {
    trace_.format = mooncake ? "mooncake" : "llmservingsim";
    do {
      interrupt::poll();
      if (trimmed(line).empty()) continue;
      const auto json = nlohmann::json::parse(line, nullptr, false);
      if (!json.is_object()) fail("no JSON object", "one object per line");
      try {
        mooncake ? add_mooncake(json) : add_llmservingsim(json);
      } catch (const nlohmann::json::exception&) {
        fail("a field is missing or of another type", mooncake
                                                          ? "timestamp, input_length, output_length, hash_ids"
                                                          : "arrival_time_ns, input_toks, output_toks");
      }
    } while (!full() && next(line));
  }

  void add_mooncake(const nlohmann::json& json) {
    PromptContent content;
    content.segment_tokens = kMooncakeSegment;
    content.segments = json.at("hash_ids").get<std::vector<uint64_t>>();
    const auto prompt = json.at("input_length").get<int64_t>();
    if (static_cast<int64_t>(content.segments.size()) * kMooncakeSegment < prompt)
      fail(fmt::format("{} hash ids for {} tokens", content.segments.size(), prompt),
           fmt::format("one for every {}", kMooncakeSegment));
    add(json.at("timestamp").get<double>() / 1e3, prompt, json.at("output_length").get<int64_t>(),
        std::move(content));
  }

  void add_llmservingsim(const nlohmann::json& json) {
    PromptContent content;
    const auto prompt = json.at("input_toks").get<int64_t>();
    if (const auto ids = json.find("input_tok_ids"); ids != json.end() && !ids->empty()) {
      content.tokens = ids->get<std::vector<int32_t>>();
      if (static_cast<int64_t>(content.tokens.size()) != prompt)
        fail(fmt::format("{} token ids, input_toks is {}", content.tokens.size(), prompt),
             "as many as tokens");
    }
    add(json.at("arrival_time_ns").get<double>() / 1e9, prompt, json.at("output_toks").get<int64_t>(),
        std::move(content));
  }

  void finish() {
    auto& requests = trace_.requests;
    if (requests.empty()) fail("it holds no request", "one request per line");
    std::stable_sort(requests.begin(), requests.end(),
                     [](const TraceRequest& a, const TraceRequest& b) { return a.arrival < b.arrival; });
    const Ps first = requests.front().arrival;
    for (TraceRequest& request : requests) request.arrival -= first;
  }

  std::istream& in_;
  const std::string& name_;
  size_t limit_;
  int line_ = 0;
  std::optional<int64_t> epoch_;
  Trace trace_;
};

}  // namespace

TraceFormat trace_format_of(std::string_view name) {
  if (name == "auto") return TraceFormat::kDetect;
  if (name == "azure") return TraceFormat::kAzure;
  if (name == "mooncake") return TraceFormat::kMooncake;
  if (name == "llmservingsim") return TraceFormat::kLlmServingSim;
  if (name == "plain") return TraceFormat::kPlain;
  throw Fault(FaultKind::kInput, "serving.trace", fmt::format("no format of traces is named '{}'", name),
              "auto, azure, mooncake, llmservingsim or plain");
}

Trace read_trace(std::istream& in, const std::string& name, TraceFormat format, size_t limit) {
  return Reader(in, name, limit).read(format);
}

}  // namespace opentrn::serving
