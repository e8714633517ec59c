// Files that commands read beside models: job files, tables, prices, traces of requests, step times, and
// annotations of meshes. The first byte says which.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <sstream>

#include "arch/tables.h"
#include "base/fault.h"
#include "cli/fabric_job_file.h"
#include "cli/plan_job_file.h"
#include "cli/plan_options.h"
#include "planner/price.h"
#include "serving/replay.h"
#include "serving/step_times.h"
#include "serving/trace.h"
#include "spmd/annotations.h"
#include "tests/fuzz/bodies.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"

namespace opentrn::fuzz {
namespace {

// A file in memory, for readers that take a path.
class File {
 public:
  explicit File(std::string_view text) : descriptor_(memfd_create("fuzz", 0)) {
    if (descriptor_ < 0 || write(descriptor_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      broken("no file in memory");
  }
  ~File() { close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  std::string path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

 private:
  int descriptor_;
};

void plan_job(const std::string& text) {
  cli::PlanOptions options;
  cli::read_job_file(File(text).path(), options);
}

void training_job(const std::string& text) {
  collectives::TrainingJob job;
  cli::read_training_file(File(text).path(), job);
}

void tables(const std::string& text) { (void)arch::load_tables({{File(text).path()}, {}}); }

void settings(const std::string& text) {
  std::istringstream lines(text);
  std::vector<std::string> settings;
  for (std::string line; std::getline(lines, line);) settings.push_back(line);
  (void)arch::load_tables({{}, settings});
}

void prices(const std::string& text) { (void)planner::read_prices(File(text).path()); }

void trace(const std::string& text) {
  std::istringstream in(text);
  const serving::Trace trace = serving::read_trace(in, "trace");
  for (size_t i = 1; i < trace.requests.size(); ++i)
    if (trace.requests[i].arrival < trace.requests[i - 1].arrival) broken("requests are not by arrival");
}

void step_times(const std::string& text) {
  std::istringstream in(text);
  (void)serving::TableTimes::read(in, "times")->description();
}

void linear_times(const std::string& text) { (void)serving::LinearTimes::parse(text)->description(); }

void limits(const std::string& text) { (void)serving::Slo::parse(text); }

void annotations(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  if (std::getline(lines, line)) (void)spmd::parse_mesh(line);
  while (std::getline(lines, line)) (void)spmd::parse_annotation(line);
}

struct Reader {
  void (*read)(const std::string&);
  const char* seed;
};
constexpr std::array kReaders = {
    Reader{plan_job,
           "model: Llama-3.1-70B\ndata: {seq: 8192, global_batch: 1024, tokens: 1e12}\ncluster: {instance: "
           "[trn1.32xlarge, trn2.48xlarge], count: [32, 64]}\nprice: {kind: on_demand}\nreliability: "
           "{profile: llama3}\n"},
    Reader{training_job,
           "axes: {tp: 64, pp: 4, dp: 98}\nblocks:\n  - name: layers\n    repeat: 35\n    steps:\n      - "
           "repeat: 20\n        steps: &s\n          - {all_gather: 64MB, over: tp}\n          - {compute: "
           "1.2ms, hbm: 400MB}\n          - {reduce_scatter: 64MB, over: dp, beside: true}\n      - {shift: "
           "8MB, over: pp}\n  - {name: again, steps: *s}\n"},
    Reader{tables,
           "[timing.v3.constant]\nhbm_sustained_gb_s = 300\n[instance.\"trn2.48xlarge\"]\nchips = 8\n"},
    Reader{settings, "timing.v3.constant.hbm_sustained_gb_s=300\ninstance.trn2.48xlarge.chips=8\n"},
    Reader{
        prices,
        "[source]\nmine = \"a contract\"\n[price.\"trn1.32xlarge\"]\nconfidence = \"documented\"\nsource = "
        "\"mine\"\non_demand_usd_h = {value = 3.0, date = \"2026-01-01\", note = \"here\"}\n"},
    Reader{trace,
           "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00.0000000,800,12\n2023-11-16 "
           "18:00:00.5000000,300,40\n"},
    Reader{trace,
           "{\"timestamp\": 0, \"input_length\": 800, \"output_length\": 12, \"hash_ids\": [1, "
           "2]}\n{\"timestamp\": 27, \"input_length\": 90, \"output_length\": 3, \"hash_ids\": [1]}\n"},
    Reader{trace,
           "{\"arrival_time_ns\": 5, \"input_toks\": 3, \"output_toks\": 2, \"input_tok_ids\": [4, 5, 6]}\n"},
    Reader{trace, "arrival_s,prompt_tokens,output_tokens\n0.5,100,20\n1e0,30,4\n"},
    Reader{step_times, "program,us\nprefill_s512,9000\ndecode_b8,2000.5\ndecode_b8_c2048,2100\n"},
    Reader{linear_times, "step=500,prefill_token=40,decode_seq=150,context_token=0.02"},
    Reader{limits, "ttft=500,tpot=50,e2e=20000"},
    Reader{annotations, "tp=4,dp=2\nlayers.*.wq=-,tp\nx=dp+tp\noutput?=tp:(1)2,-\n"},
};

constexpr std::string_view kWords[] = {"-1",
                                       "1e999",
                                       "nan",
                                       "0x7f",
                                       "9223372036854775808",
                                       "[",
                                       "{",
                                       "&a ",
                                       "*a",
                                       "\"",
                                       ",",
                                       "=",
                                       "inf",
                                       "\n",
                                       "\t",
                                       "- ",
                                       "1e308",
                                       "!!",
                                       "<<:",
                                       "0.",
                                       "18446744073709551616"};

}  // namespace

void config_bytes(Bytes file) {
  if (file.empty()) return;
  const auto& reader = kReaders[static_cast<size_t>(file[0]) % kReaders.size()];
  const std::string text(reinterpret_cast<const char*>(file.data()) + 1, file.size() - 1);
  try {
    reader.read(text);
  } catch (const Fault& fault) {
    if (fault.kind() != FaultKind::kInput) broken("a bad file is no input error: {}", fault.what());
  }
}

std::vector<std::byte> config_seed(SplitMix64& random) {
  const uint32_t which = random.below(static_cast<uint32_t>(kReaders.size()));
  std::vector<std::byte> bytes{static_cast<std::byte>(which)};
  for (const char c : std::string_view(kReaders[which].seed)) bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

void config_case(uint64_t seed) {
  SplitMix64 random(seed);
  const std::vector<std::byte> whole = config_seed(random);
  const auto& reader = kReaders[static_cast<size_t>(whole[0])];
  reader.read(reader.seed);  // what is right is read
  for (int i = 0; i < 20; ++i) {
    std::vector<std::byte> bad(whole.begin() + 1, whole.end());
    mutate(random, bad, kWords);
    bad.insert(bad.begin(), whole[0]);
    config_bytes(bad);
  }
}

}  // namespace opentrn::fuzz
