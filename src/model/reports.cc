#include "model/reports.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/number_text.h"

namespace opentrn::model {
namespace {

constexpr size_t kColumns = 79;

template <typename Rows, typename Value>
auto sum(const Rows& rows, Value value) {
  decltype(value(*rows.begin())) total = 0;
  for (const auto& row : rows) total += value(row);
  return total;
}

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

std::string count_or_dash(int64_t count) { return count == 0 ? "-" : fmt::format("{}", count); }

// Sizes; `?` for one that data decide.
std::string shape_text(const ordered_json& shape) {
  std::vector<std::string> sizes;
  for (const auto& size : shape) sizes.push_back(size < 0 ? "?" : size.dump());
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

std::string sizes_text(const ordered_json& sizes) {
  std::vector<std::string> words;
  for (const auto& [name, size] : sizes.items()) words.push_back(fmt::format("{}={}", name, size.dump()));
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string time_of(const ordered_json& time_us) {
  return time_us.is_null() ? "unknown time" : fmt::format("{:.2f} us", time_us.get<double>());
}

std::string said(const ordered_json& facts, const char* name) { return facts.at(name).get<std::string>(); }
int64_t counted(const ordered_json& facts, const char* name) { return facts.at(name).get<int64_t>(); }
std::string size_of(const ordered_json& facts, const char* name) {
  return size_text(facts.at(name).get<double>());
}

bool asked_for(const ordered_json& facts, const char* name) { return said(facts, name) != "none"; }

// How many constant operands of products are kept narrower or sparse, and why others are not.
std::string weights_text(const ordered_json& passes) {
  constexpr std::pair<const char*, const char*> kReasons[] = {
      {"weights_left_small", "too small"},
      {"weights_left_shared", "read by other ops too"},
      {"weights_left_not_finite", "not finite"},
      {"weights_left_unfit", "of a shape or type that the instruction does not take"},
      {"weights_left_not_sparse", "not sparse"}};
  std::vector<std::string> left;
  for (const auto& [key, why] : kReasons)
    if (const int64_t count = counted(passes, key)) left.push_back(fmt::format("{} {}", count, why));
  const std::string text =
      fmt::format("{} constants of products, {} -> {}", counted(passes, "weights_quantised"),
                  size_of(passes, "weights_bytes_before"), size_of(passes, "weights_bytes_after"));
  return left.empty() ? text : fmt::format("{}; left: {}", text, fmt::join(left, ", "));
}

// A line for each input and output, with names as wide as asked.
std::string ports_text(const ordered_json& facts, int kind_width, int name_width) {
  std::string text;
  for (const auto& [key, kind] : {std::pair("inputs", "input"), std::pair("outputs", "output")})
    for (const auto& port : facts.at(key))
      text += fmt::format("  {:<{}} {:<{}} {} {}\n", kind, kind_width, port[0].get<std::string>(), name_width,
                          port[1].get<std::string>(), shape_text(port[2]));
  return text;
}

std::string compile_text(const ordered_json& facts, const std::string& stages, const std::string& predicted) {
  const ordered_json& passes = facts.at("passes");
  std::string text =
      fmt::format("{}: {} for {} in {:.2f} s, {} instructions, {} of constants\n",
                  facts.at("cache") == "hit" ? "taken from the cache" : "compiled", said(facts, "model"),
                  said(facts, "target"), facts.at("compile_s").get<double>(),
                  grouped(counted(facts, "instructions")), size_of(facts, "constant_bytes"));
  if (asked_for(facts, "auto_cast"))
    text += fmt::format("auto-cast {} to {}: {} casts\n", said(facts, "auto_cast"),
                        said(facts, "auto_cast_type"), counted(passes, "casts"));
  if (asked_for(facts, "weight_dtype"))
    text += fmt::format("weights in {}: {}\n", said(facts, "weight_dtype"), weights_text(passes));
  if (asked_for(facts, "weight_sparsity"))
    text += fmt::format("weights of {}: {}\n", said(facts, "weight_sparsity"), weights_text(passes));
  text += ports_text(facts, 6, 10) + stages + predicted;
  if (facts.contains("programs"))
    for (const auto& row : facts["programs"])
      text += fmt::format("  program for {}: {} instructions, {}\n", sizes_text(row.at("dimensions")),
                          grouped(counted(row, "instructions")), time_of(row.at("time_us")));
  text += fmt::format("wrote {} ({})\n", said(facts, "file"), size_of(facts, "file_bytes"));
  for (const auto& path : facts.at("report")) text += fmt::format("report: {}\n", path.get<std::string>());
  return text;
}

}  // namespace

std::string place_of(const SourceLocation& where) {
  if (!where.function.empty() || !where.known()) return where.function;
  return fmt::format("{}:{}", std::filesystem::path(where.file).filename().string(), where.line);
}

Report coverage_report(std::vector<compiler::OpCoverage> rows, const std::vector<std::string>& notes) {
  using Row = compiler::OpCoverage;
  std::ranges::stable_sort(rows, [](const Row& a, const Row& b) {
    return std::tuple(-a.unsupported, -a.emulated, -a.flops, -a.count, std::string_view(a.op)) <
           std::tuple(-b.unsupported, -b.emulated, -b.flops, -b.count, std::string_view(b.op));
  });
  const int64_t unsupported = sum(rows, [](const Row& row) { return row.unsupported; });
  const int64_t total = sum(rows, [](const Row& row) { return row.count; });
  const double flops = sum(rows, [](const Row& row) { return row.flops; });
  const double refused = sum(rows, [](const Row& row) {
    return row.flops * static_cast<double>(row.unsupported) / static_cast<double>(row.count);
  });
  auto ops = ordered_json::array();
  std::string text = fmt::format("{:<34} {:>6} {:>7} {:>9} {:>8} {:>7}\n", "op", "count", "flop", "supported",
                                 "emulated", "refused");
  for (const Row& row : rows) {
    const int64_t supported = row.count - row.unsupported - row.emulated;
    ops.push_back({{"op", row.op},
                   {"count", row.count},
                   {"unsupported", row.unsupported},
                   {"example", row.example},
                   {"emulated", row.emulated},
                   {"flops", row.flops},
                   {"file", row.where.file},
                   {"line", row.where.line},
                   {"name", row.where.function},
                   {"supported", supported},
                   {"flops_percent", 100 * share(row.flops, flops)}});
    const std::string percent = row.flops > 0 ? fmt::format("{:.1f} %", 100 * row.flops / flops) : "";
    text +=
        fmt::format("{:<34} {:>6} {:>7} {:>9} {:>8} {:>7}\n", row.op, row.count, percent,
                    count_or_dash(supported), count_or_dash(row.emulated), count_or_dash(row.unsupported));
    if (row.unsupported + row.emulated == 0) continue;
    const std::string place = place_of(row.where);
    const std::string line = fmt::format("    {}{}{}", place, place.empty() ? "" : ": ", row.example);
    text += (line.size() <= kColumns ? line : line.substr(0, kColumns - 3) + "...") + "\n";
  }
  const auto has = [&](std::string_view words) {
    return std::ranges::any_of(notes, [&](const std::string& note) { return note.find(words) != note.npos; });
  };
  text += fmt::format("{} of {} {} have a device kernel", total - unsupported, total,
                      has("not looked at") ? "ops that were looked at" : "ops");
  if (unsupported > 0 && flops > 0)
    text += fmt::format("; those without: {:.1f} % of the flops", 100 * refused / flops);
  text += "\n";
  if (std::ranges::any_of(rows, [](const Row& row) { return row.emulated > 0; }))
    text += "emulated: done as other ops, or 64-bit types in 32 bits\n";
  for (const std::string& note : notes) text += note + "\n";
  return {{{"ops", ops}, {"unsupported", unsupported}, {"count", total}, {"flops", flops}, {"notes", notes}},
          text,
          unsupported == 0};
}

Report unknown_operators_report(const std::vector<import::onnx::SurveyRow>& rows) {
  using Row = import::onnx::SurveyRow;
  std::vector<Row> unknown;
  std::ranges::copy_if(rows, std::back_inserter(unknown),
                       [](const Row& row) { return !row.refusal.empty(); });
  std::ranges::stable_sort(unknown, [](const Row& a, const Row& b) {
    return a.count != b.count ? a.count > b.count : a.op < b.op;
  });
  const size_t nodes = sum(rows, [](const Row& row) { return row.count; });
  const size_t missing = sum(unknown, [](const Row& row) { return row.count; });
  auto listed = ordered_json::array();
  std::string text = fmt::format("{:<44} {:>6} {:>7}\n", "operator that is not imported", "nodes", "share");
  for (const Row& row : unknown) {
    const double percent = 100 * share(static_cast<double>(row.count), static_cast<double>(nodes));
    listed.push_back({{"op", row.op},
                      {"count", row.count},
                      {"refusal", row.refusal},
                      {"place", row.place},
                      {"nodes_percent", percent}});
    text += fmt::format("{:<44} {:>6} {:>5.1f} %\n    {}; first at {}\n", row.op, row.count, percent,
                        row.refusal, row.place.empty() ? "a node without a name" : row.place);
  }
  text += fmt::format(
      "{} of {} nodes have such an operator; which of the others have a device kernel is unknown\n", missing,
      nodes);
  return {{{"ops", ordered_json::array()},
           {"not_imported", listed},
           {"nodes", nodes},
           {"nodes_not_imported", missing}},
          text,
          unknown.empty()};
}

Report compile_report(ordered_json facts, const std::string& stages, const std::string& predicted) {
  std::string text = compile_text(facts, stages, predicted);
  if (!asked_for(facts, "auto_cast")) facts["auto_cast_type"] = nullptr;
  for (const char* name : {"weight_dtype", "weight_sparsity"})
    if (!asked_for(facts, name)) facts[name] = nullptr;
  return {std::move(facts), std::move(text)};
}

std::string description_text(const ordered_json& program) {
  const std::string sizes = sizes_text(program.at("dimensions"));
  std::string text =
      fmt::format("program{}: {} instructions, {} kernels of {} ops, {}\n",
                  sizes.empty() ? "" : " for " + sizes, grouped(counted(program, "instructions")),
                  counted(program, "kernels"), counted(program, "ops"), time_of(program.at("time_us")));
  text += ports_text(program, 8, 18);
  for (const auto& [file, bytes] : program.at("weight_files").items())
    text += fmt::format("  weights  {} in {}\n", size_text(bytes.get<double>()), file);
  const ordered_json& memory = program.at("memory");
  text += fmt::format("  memory   SBUF {} of {} a partition, PSUM {} of {} banks, HBM {}\n",
                      size_of(memory, "sbuf_bytes_per_partition_used"),
                      size_of(memory, "sbuf_bytes_per_partition_limit"), counted(memory, "psum_banks_used"),
                      counted(memory, "psum_banks_limit"), size_of(memory, "hbm_bytes_used"));
  for (const std::string role : {"input", "constant", "intermediate", "output"}) {
    int64_t count = 0, bytes = 0, first = 0;
    for (const auto& tensor : program.at("memory_map")) {
      if (tensor.at("role") != role) continue;
      const int64_t offset = counted(tensor, "offset");
      first = count == 0 ? offset : std::min(first, offset);
      ++count;
      bytes += counted(tensor, "bytes");
    }
    if (count > 0)
      text += fmt::format("  HBM      {:>5} {:<14} {:>10}  from offset {:#x}\n", count, role + "s",
                          size_text(static_cast<double>(bytes)), first);
  }
  return text;
}

std::string output_text(const ordered_json& facts) {
  if (facts.contains("value")) return said(facts, "value");
  const auto number = [&](const char* name) { return facts.at(name).get<double>(); };
  std::string text = fmt::format("{} {}", said(facts, "dtype"), shape_text(facts.at("shape")));
  if (facts.contains("min"))
    text +=
        fmt::format("  min {:.6g}  max {:.6g}  mean {:.6g}", number("min"), number("max"), number("mean"));
  if (const int64_t count = facts.value("not_finite", int64_t{0}))
    text += fmt::format("  {} not finite", count);
  if (facts.contains("unwritten"))
    text += fmt::format("  {} never written, from [{}]", counted(facts, "unwritten"),
                        fmt::join(facts.at("first_unwritten").get<std::vector<int64_t>>(), ", "));
  return text;
}

HostShares shares_of(const runtime::HostOps& ops) {
  return {share(sum(ops.calls, [](const runtime::HostOp& op) { return op.flops; }), ops.model_flops),
          share(static_cast<double>(sum(ops.calls, [](const runtime::HostOp& op) { return op.bytes; })),
                static_cast<double>(ops.memory_bytes))};
}

std::string host_text(const std::vector<runtime::HostOp>& calls, const HostShares& shares) {
  if (calls.empty()) return {};
  std::string text =
      fmt::format("{} of the model's kernels are the host's: no device kernel takes\n", calls.size());
  for (const runtime::HostOp& op : calls) {
    const std::string place = place_of(op.where);
    text += fmt::format("  {} {}{}{}\n", op.ops, op.result, place.empty() ? "" : " at ", place);
  }
  return text + fmt::format(
                    "  {:.1f}% of its flops, {:.1f}% of its bytes; predicted times leave them out, how long "
                    "the host "
                    "takes is unknown; --strict refuses them",
                    100 * shares.flops, 100 * shares.bytes);
}

}  // namespace opentrn::model
