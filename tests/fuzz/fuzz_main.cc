// opentrn_fuzz --seconds N --seed S [--only TARGET]: cases until the time is over; --cpu-seconds N: until
// this process used that much processor time. opentrn_fuzz --targets names the targets. opentrn_fuzz --only
// TARGET --case SEED: one case again. opentrn_fuzz --corpus FOLDER: files that fuzzers of bytes begin with
// (bodies.h), in a folder for each.
//
// Exit status 0: no case broke a promise. 1: one did, its seed is printed. A crash or a case of more than
// --case-seconds (30) of processor time prints its seed too and ends the process by that signal.
#include <unistd.h>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <span>
#include <string_view>
#include <vector>

#include "tests/fuzz/bodies.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/watchdog.h"

namespace {

using opentrn::SplitMix64;

double case_seconds = 30;  // of processor time

struct Target {
  const char* name;
  void (*run)(uint64_t);
};
constexpr Target kTargets[] = {
    {"text", opentrn::fuzz::text_case},         {"file", opentrn::fuzz::file_case},
    {"model", opentrn::fuzz::model_case},       {"origin", opentrn::fuzz::origin_case},
    {"graph", opentrn::fuzz::graph_case},       {"onnx", opentrn::fuzz::onnx_case},
    {"run", opentrn::fuzz::run_case},           {"passes", opentrn::fuzz::passes_case},
    {"schedule", opentrn::fuzz::schedule_case}, {"plans", opentrn::fuzz::plans_case},
    {"weights", opentrn::fuzz::weights_case},   {"decoder", opentrn::fuzz::decoder_case},
    {"monitor", opentrn::fuzz::monitor_case},   {"record", opentrn::fuzz::record_case},
    {"nccom", opentrn::fuzz::nccom_case},       {"variables", opentrn::fuzz::variables_case},
    {"config", opentrn::fuzz::config_case}};

// What the watch over a case is tested with, by name alone: a case that uses the processor for ever, one that
// waits for ever, and one that waits for longer than it may use the processor.
constexpr Target kWatched[] = {
    {"spins",
     [](uint64_t) {
       for (volatile uint64_t turns = 0;;) turns = turns + 1;
     }},
    {"stalls",
     [](uint64_t) {
       while (true) pause();
     }},
    {"waits", [](uint64_t) { usleep(static_cast<useconds_t>(case_seconds * 3e6)); }}};

// What a signal handler may read.
char current[128];

void on_signal(int number) {
  const char* what = number == SIGPROF || number == SIGALRM ? "\nfuzz: HANG in " : "\nfuzz: CRASH in ";
  (void)!write(2, what, std::strlen(what));
  (void)!write(2, current, std::strlen(current));
  (void)!write(2, "\n", 1);
  std::signal(number, SIG_DFL);
  std::raise(number);
}

bool run_one(const Target& target, uint64_t seed) {
  fmt::format_to_n(current, sizeof current - 1, "--only {} --case {}", target.name, seed).out[0] = '\0';
  opentrn::fuzz::watch(case_seconds);
  try {
    target.run(seed);
  } catch (const std::exception& error) {
    opentrn::fuzz::watch(0);
    fmt::print(stderr, "fuzz: FAILED: {}\n  again: opentrn_fuzz {}\n", error.what(), current);
    return false;
  }
  opentrn::fuzz::watch(0);
  return true;
}

int usage() {
  fmt::print(stderr,
             "usage: opentrn_fuzz [--seconds N | --cpu-seconds N] [--seed S] [--only TARGET] [--case SEED]\n"
             "                    [--case-seconds N] | --corpus FOLDER | --targets\n");
  return 2;
}

int write_corpus(const std::filesystem::path& folder) {
  constexpr int kFiles = 64;
  constexpr struct {
    const char* name;
    std::vector<std::byte> (*make)(SplitMix64&);
  } kSeeds[] = {{"model", opentrn::fuzz::model_seed},     {"origin", opentrn::fuzz::origin_seed},
                {"program", opentrn::fuzz::program_seed}, {"import", opentrn::fuzz::import_seed},
                {"weights", opentrn::fuzz::weights_seed}, {"decoder", opentrn::fuzz::decoder_seed},
                {"config", opentrn::fuzz::config_seed}};
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

struct Options {
  double seconds = 10;
  bool processor = false;  // `seconds` are of processor time
  uint64_t seed = 0, one_case = 0;
  bool has_case = false;
  std::string_view only;
};

// Processor seconds of this process.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Cases of the targets, the one that has had the least processor time next: a schedule takes a hundred times
// as long as a text.
int run_all(const Options& options, std::span<const Target> targets) {
  std::vector<uint64_t> counts(targets.size());
  std::vector<double> spent(targets.size());
  SplitMix64 seeds(options.seed);
  const auto clock = options.processor ? processor_seconds : wall_seconds;
  const double start = clock();
  do {
    size_t next = targets.size();
    for (size_t i = 0; i < targets.size(); ++i)
      if ((options.only.empty() || options.only == targets[i].name) &&
          (next == targets.size() || spent[i] < spent[next]))
        next = i;
    const double before = processor_seconds();
    if (!run_one(targets[next], options.has_case ? options.one_case : seeds.next())) return 1;
    spent[next] += processor_seconds() - before;
    ++counts[next];
  } while (!options.has_case && clock() - start < options.seconds);
  fmt::print("fuzz: seed {}:", options.seed);
  for (size_t i = 0; i < targets.size(); ++i) fmt::print(" {} {}", counts[i], targets[i].name);
  fmt::print(" cases in {:.0f} CPU s, none failed\n", processor_seconds());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--targets") {
      for (const Target& target : kTargets) fmt::print("{}\n", target.name);
      return 0;
    }
    if (++i == argc) return usage();
    if (option == "--seconds" || option == "--cpu-seconds")
      options.seconds = std::atof(argv[i]), options.processor = option == "--cpu-seconds";
    else if (option == "--case-seconds")
      case_seconds = std::atof(argv[i]);
    else if (option == "--seed")
      options.seed = std::strtoull(argv[i], nullptr, 10);
    else if (option == "--only")
      options.only = argv[i];
    else if (option == "--corpus")
      return write_corpus(argv[i]);
    else if (option == "--case")
      options.one_case = std::strtoull(argv[i], nullptr, 10), options.has_case = true;
    else
      return usage();
  }
  for (int number : {SIGPROF, SIGALRM, SIGSEGV, SIGABRT, SIGFPE, SIGBUS, SIGILL})
    std::signal(number, on_signal);
  const auto named = [&](const Target& target) { return options.only == target.name; };
  if (std::ranges::any_of(kWatched, named)) return run_all(options, kWatched);
  if (!options.only.empty() && std::ranges::none_of(kTargets, named)) return usage();
  return run_all(options, kTargets);
}
