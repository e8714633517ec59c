#include "server/generation_report.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace opentrn::server {

using Json = nlohmann::ordered_json;

namespace {

// With their names, those of one token each last; the draft model's behind the model's.
std::vector<Json> programs_of(const Json& run) {
  std::vector<Json> all;
  for (const char* key : {"programs", "draft_programs"}) {
    std::vector<Json> rows = run[key];
    std::ranges::stable_partition(rows, [](const Json& row) { return row["tokens"] != 1; });
    for (Json& row : rows) {
      const std::string prefix = std::string(key) == "programs" ? "" : "draft model's ";
      row["name"] = prefix + row["text"].get<std::string>();
      all.push_back(std::move(row));
    }
  }
  return all;
}

int64_t tokens_of(const Json& run) {
  int64_t tokens = 0;
  for (const Json& answer : run["answers"]) tokens += static_cast<int64_t>(answer["tokens"].size());
  return tokens;
}

double tokens_per_s(const Json& run) {
  return static_cast<double>(tokens_of(run)) / run["host"]["seconds"].get<double>();
}

double ms(const Json& us) { return us.get<double>() / 1000; }

// Of tokens behind the first, which are given by steps without a prompt; nothing where there are none.
Json us_per_token(const Json& speculation) {
  const auto tokens = speculation["decoded_tokens"].get<int64_t>();
  if (tokens == 0) return nullptr;
  return speculation["decoded_us"].get<double>() / static_cast<double>(tokens);
}

std::string program_line(const Json& row) {
  std::string text =
      fmt::format("{}: {:.2f} ms predicted", row["name"].get<std::string>(), ms(row["predicted_us"]));
  if (const auto sequences = row["sequences"].get<double>(); sequences > 1)
    text += fmt::format(", {:.2f} ms a token", ms(row["predicted_us"]) / sequences);
  if (row["collectives_us"].get<double>() != 0)
    text += fmt::format(", {:.2f} ms of it exchanged", ms(row["collectives_us"]));
  text +=
      fmt::format(", bound by {}; {} runs", row["bound_by"].get<std::string>(), row["runs"].get<int64_t>());
  if (const auto seconds = row["host_s"].get<double>(); seconds != 0)  // where this machine was measured
    text += fmt::format(", {:.0f} ms here", seconds / row["runs"].get<double>() * 1000);
  return text;
}

}  // namespace

Json generation_facts(const Json& run) {
  constexpr const char* kProgramKeys[] = {"name",         "sequences",    "tokens",         "context",
                                          "instructions", "predicted_us", "collectives_us", "bound_by",
                                          "band",         "runs",         "host_s"};
  Json facts = run;
  facts.erase("draft_programs");
  facts["programs"] = Json::array();
  for (const Json& row : programs_of(run)) {
    Json kept;
    for (const char* key : kProgramKeys) kept[key] = row[key];
    facts["programs"].push_back(std::move(kept));
  }
  Json& speculation = facts["speculation"];
  speculation["us_per_token"] = us_per_token(speculation);
  speculation.erase("decoded_us");
  speculation.erase("decoded_tokens");
  facts["host"]["tokens_per_s"] = tokens_per_s(run);
  return facts;
}

std::string generation_text(const Json& run) {
  std::vector<std::string> lines;
  if (!run["answers"].empty()) {
    const Json& first = run["answers"][0];
    lines.push_back(fmt::format("first token of {}: {:.2f} ms predicted on {}, {:.2f} s here",
                                first["prompt_tokens"].get<int64_t>(), ms(first["first_token_predicted_us"]),
                                run["target"].get<std::string>(), first["first_token_host_s"].get<double>()));
  }
  for (const Json& row : programs_of(run)) {
    lines.push_back(program_line(row));
    const std::string trust = "  " + row["trust"].get<std::string>();
    // What is unknown for the same reason is said once.
    if (std::ranges::find(lines, trust) == lines.end()) lines.push_back(trust);
  }
  if (const Json& speculation = run["speculation"]; speculation["tokens"] != 0) {
    std::string line = fmt::format("{} of {} guessed tokens were right", speculation["right"].get<int64_t>(),
                                   speculation["guessed"].get<int64_t>());
    if (const Json us = us_per_token(speculation); !us.is_null())
      line += fmt::format(": {:.2f} ms predicted for each token behind the first", ms(us));
    lines.push_back(std::move(line));
  }
  lines.push_back(fmt::format("{} tokens in {:.2f} s here, {:.1f} a second; ready after {:.2f} s",
                              tokens_of(run), run["host"]["seconds"].get<double>(), tokens_per_s(run),
                              run["host"]["ready_s"].get<double>()));
  return fmt::format("{}", fmt::join(lines, "\n"));
}

}  // namespace opentrn::server
