#include "profile/recommendations.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include <fmt/format.h>

namespace opentrn::profile {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kSectionsMax = 3, kLinesMax = 3;
constexpr double kShareMin = 0.05;  // of the run, below which nothing is said
constexpr double kWideMin = 0.1;    // of the arithmetic in FP32, below which nothing is said

struct Help {
  const char* resource;  // that bounds a run
  const char* text;
};
constexpr std::array kHelp{
    Help{"descriptors",
         "Move data in fewer and longer pieces: whole rows instead of elements, transposes on the Tensor "
         "engine "
         "instead of in a DMA."},
    Help{"DMA engines", "Move less: keep what is used again in SBUF, fuse kernels, use narrower types."},
    Help{"HBM bandwidth", "Move less: keep what is used again in SBUF, fuse kernels, use narrower types."},
    Help{"Tensor engine",
         "Use BF16 or FP8 operands, fill 128 x 512 tiles, keep the operand that stays (moving the other)."},
    Help{"Vector engine",
         "Give element-wise work to the Scalar and GpSimd engines too, fuse it (tensor_scalar, activation "
         "with "
         "scale and bias), and compute in BF16 where it is faster."},
    Help{"Scalar engine",
         "Fold scale, bias and reduction into the activation; give copies and additions to the Vector "
         "engine."},
    Help{"DMA latency",
         "Start loads earlier (two buffers), and join small ones: each waits for its own latency."},
    Help{"semaphores",
         "Let fewer instructions wait for each other: longer tiles, fewer steps between engines."},
    Help{"GpSimd engine",
         "Give work that other engines can do to them: GpSimd is the slowest for element-wise work."}};

struct Section {
  std::string title, symptom;
  const char* help;
  const char* tradeoff;
  double ns;  // that would be gone at best
};
using Sections = std::vector<Section>;

void add_bounds(Sections& sections, const Json& profile) {
  for (const Json& row : profile["bound_by"]["shares"]) {
    const std::string resource = row["resource"];
    const auto* help = std::ranges::find(kHelp, resource, &Help::resource);
    if (help == kHelp.end()) continue;
    const double ns = row["ns"];
    sections.push_back(
        {"Bound by " + resource,
         fmt::format("{:.0f} % of the critical path ({:.2f} us)", row["percent"].get<double>(), ns / 1e3),
         help->text, "Other resources bound the run then: predict it again.", ns});
  }
}

void add_waits(Sections& sections, const Json& profile) {
  const Json* worst = nullptr;
  for (const Json& row : profile["stalls"]) {
    const Json& engine = row["engine"];
    if (engine != "tensor" && engine != "vector" && engine != "scalar") continue;
    if (!worst || row["ns"].get<double>() > (*worst)["ns"].get<double>()) worst = &row;
  }
  if (!worst) return;
  std::string engine = (*worst)["engine"];
  engine[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(engine[0])));
  const double ns = (*worst)["ns"];
  sections.push_back(
      {fmt::format("The {} engine waits", engine),
       fmt::format("{:.2f} us {}, {} times", ns / 1e3, (*worst)["cause"].get<std::string>(),
                   (*worst)["count"].get<int64_t>()),
       "Start the next tile's loads before the computation of this one (two buffers), and order "
       "independent work so that no engine waits for the slowest.",
       "Two buffers take twice the SBUF.", ns});
}

void add_memory(Sections& sections, const Json& profile) {
  const Json& memory = profile["memory"];
  const int64_t spilled =
      memory["spill_save_bytes"].get<int64_t>() + memory["spill_reload_bytes"].get<int64_t>();
  if (spilled == 0) return;
  sections.push_back(
      {"Values are spilled to HBM", fmt::format("{} bytes are saved and loaded again", spilled),
       "Use smaller tiles, or recompute cheap values instead of keeping them.",
       "Smaller tiles use the Tensor engine less well.",
       static_cast<double>(spilled) / std::max(profile["dma"]["achieved_gb_s"].get<double>(), 1e-9)});
}

void add_wide_products(Sections& sections, const Json& profile) {
  double total = 0, wide = 0, busy = 0;
  for (const auto& [type, flops] : profile["flops"].items()) {
    total += flops.get<double>();
    if (type == "fp32") wide = flops;
  }
  if (total == 0 || wide / total < kWideMin) return;
  for (const Json& row : profile["engines"])
    if (row["engine"] == "tensor") {
      busy = row["busy_ns"];
      break;
    }
  // FP32 products take four passes of the Tensor engine where BF16 takes one.
  sections.push_back(
      {"Products in FP32", fmt::format("{:.0f} % of the arithmetic is FP32", 100 * wide / total),
       "Cast operands to BF16 (auto_cast=\"matmult\", or in the program): the Tensor engine then "
       "takes a quarter of the passes.",
       "Products round to 8 bits of mantissa: check the results (opentrn diff).", 0.75 * busy});
}

std::string bound_text(double total, double left) {
  return left > 0.1 * total ? fmt::format("at most {:.2f} times as fast", total / left)
                            : "more than a bound can say";
}

}  // namespace

std::string recommendations(const Json& profile, const SourceLine& source) {
  const double total = profile["total_ns"];
  Sections sections;
  add_bounds(sections, profile);
  add_waits(sections, profile);
  add_memory(sections, profile);
  add_wide_products(sections, profile);
  std::erase_if(sections, [&](const Section& section) { return section.ns < kShareMin * total; });
  std::ranges::stable_sort(sections, std::greater{}, &Section::ns);
  std::string text = fmt::format(
      "# {} on {}: {:.2f} us predicted\n\nRead off OpenTrn's timing model, not measured. A bound says what "
      "is left "
      "if the time in question were gone; what is won in fact is less.\n\n",
      profile["program"].get<std::string>(), profile["neuron_core"].get<std::string>(), total / 1e3);
  for (size_t i = 0; i < std::min(kSectionsMax, sections.size()); ++i) {
    const Section& each = sections[i];
    text += fmt::format("## {}. {}\n\n- **Symptom:** {}\n- **Try:** {}\n- **Bound:** {}\n- **Price:** {}\n\n",
                        i + 1, each.title, each.symptom, each.help,
                        bound_text(total, std::max(total - each.ns, 0.0)), each.tradeoff);
  }
  if (sections.empty())
    text += "Nothing stands out: no resource, wait or memory traffic takes 5 % of the run.\n\n";
  text += "## Where\n\n";
  const Json& lines = profile["lines"];
  for (size_t i = 0; i < std::min(kLinesMax, lines.size()); ++i) {
    const std::string file = lines[i]["file"];
    const int64_t line = lines[i]["line"];
    const std::string found = source(file, line);
    text += fmt::format("- `{}:{}`: {:.0f} % of the critical path{}\n", file, line,
                        lines[i]["critical_percent"].get<double>(),
                        found.empty() ? "" : fmt::format(": `{}`", found));
  }
  return text;
}

}  // namespace opentrn::profile
