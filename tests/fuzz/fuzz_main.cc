// opentrn_fuzz --seconds N --seed S [--only TARGET]: cases until the time is over. TARGET: text, file, model,
// origin, graph, onnx, run, passes, schedule, plans, weights, monitor, record, nccom, variables,
// config.
// opentrn_fuzz --only TARGET --case SEED: one case again. opentrn_fuzz --corpus FOLDER: files that fuzzers of
// bytes begin with (bodies.h), in a folder for each.
//
// Exit status 0: no case broke a promise. 1: one did, its seed is printed. A crash or a case of more than
// kCaseSeconds prints its seed too and ends the process by that signal.
#include <unistd.h>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "tests/fuzz/bodies.h"
#include "tests/fuzz/fuzz.h"

namespace {

using opentrn::SplitMix64;

constexpr unsigned kCaseSeconds = 30;

struct Target {
  const char* name;
  void (*run)(uint64_t);
};
constexpr Target kTargets[] = {{"text", opentrn::fuzz::text_case},
                               {"file", opentrn::fuzz::file_case},
                               {"model", opentrn::fuzz::model_case},
                               {"origin", opentrn::fuzz::origin_case},
                               {"graph", opentrn::fuzz::graph_case},
                               {"onnx", opentrn::fuzz::onnx_case},
                               {"run", opentrn::fuzz::run_case},
                               {"passes", opentrn::fuzz::passes_case},
                               {"schedule", opentrn::fuzz::schedule_case},
                               {"plans", opentrn::fuzz::plans_case},
                               {"weights", opentrn::fuzz::weights_case},
                               {"monitor", opentrn::fuzz::monitor_case},
                               {"record", opentrn::fuzz::record_case},
                               {"nccom", opentrn::fuzz::nccom_case},
                               {"variables", opentrn::fuzz::variables_case},
                               {"config", opentrn::fuzz::config_case}};

// What a signal handler may read.
char current[128];

void on_signal(int number) {
  const char* what = number == SIGALRM ? "\nfuzz: HANG in " : "\nfuzz: CRASH in ";
  (void)!write(2, what, std::strlen(what));
  (void)!write(2, current, std::strlen(current));
  (void)!write(2, "\n", 1);
  std::signal(number, SIG_DFL);
  std::raise(number);
}

bool run_one(const Target& target, uint64_t seed) {
  fmt::format_to_n(current, sizeof current - 1, "--only {} --case {}", target.name, seed).out[0] = '\0';
  alarm(kCaseSeconds);
  try {
    target.run(seed);
  } catch (const std::exception& error) {
    alarm(0);
    fmt::print(stderr, "fuzz: FAILED: {}\n  again: opentrn_fuzz {}\n", error.what(), current);
    return false;
  }
  alarm(0);
  return true;
}

int usage() {
  fmt::print(
      stderr,
      "usage: opentrn_fuzz [--seconds N] [--seed S] [--only TARGET] [--case SEED] | --corpus FOLDER\n");
  return 2;
}

int write_corpus(const std::filesystem::path& folder) {
  constexpr int kFiles = 64;
  constexpr struct {
    const char* name;
    std::vector<std::byte> (*make)(SplitMix64&);
  } kSeeds[] = {{"model", opentrn::fuzz::model_seed},     {"origin", opentrn::fuzz::origin_seed},
                {"program", opentrn::fuzz::program_seed}, {"import", opentrn::fuzz::import_seed},
                {"weights", opentrn::fuzz::weights_seed}, {"config", opentrn::fuzz::config_seed}};
  for (const auto& seeds : kSeeds) {
    std::filesystem::create_directories(folder / seeds.name);
    for (int i = 0; i < kFiles; ++i) {
      SplitMix64 random(static_cast<uint64_t>(i));
      const std::vector<std::byte> bytes = seeds.make(random);
      std::ofstream file(folder / seeds.name / std::to_string(i), std::ios::binary);
      file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
      if (!file.flush()) return 1;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 10;
  uint64_t seed = 0, one_case = 0;
  bool has_case = false;
  std::string_view only;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (++i == argc) return usage();
    if (option == "--seconds")
      seconds = std::atof(argv[i]);
    else if (option == "--seed")
      seed = std::strtoull(argv[i], nullptr, 10);
    else if (option == "--only")
      only = argv[i];
    else if (option == "--corpus")
      return write_corpus(argv[i]);
    else if (option == "--case")
      one_case = std::strtoull(argv[i], nullptr, 10), has_case = true;
    else
      return usage();
  }
  for (int number : {SIGALRM, SIGSEGV, SIGABRT, SIGFPE, SIGBUS, SIGILL}) std::signal(number, on_signal);

  if (!only.empty() && std::ranges::none_of(kTargets, [&](const Target& t) { return only == t.name; }))
    return usage();
  // The target that has had the least time goes next: a schedule takes a hundred times as long as a text.
  using Clock = std::chrono::steady_clock;
  uint64_t counts[std::size(kTargets)] = {};
  Clock::duration spent[std::size(kTargets)] = {};
  SplitMix64 seeds(seed);
  const auto start = Clock::now();
  do {
    size_t next = std::size(kTargets);
    for (size_t i = 0; i < std::size(kTargets); ++i)
      if ((only.empty() || only == kTargets[i].name) &&
          (next == std::size(kTargets) || spent[i] < spent[next]))
        next = i;
    const auto before = Clock::now();
    if (!run_one(kTargets[next], has_case ? one_case : seeds.next())) return 1;
    spent[next] += Clock::now() - before;
    ++counts[next];
  } while (!has_case && std::chrono::duration<double>(Clock::now() - start).count() < seconds);
  fmt::print("fuzz: seed {}:", seed);
  for (size_t i = 0; i < std::size(kTargets); ++i) fmt::print(" {} {}", counts[i], kTargets[i].name);
  fmt::print(" cases, none failed\n");
  return 0;
}
