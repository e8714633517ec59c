// opentrn ls: the machines of the tables, side by side.
#include <memory>

#include <fmt/format.h>

#include "arch/arch.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/describe.h"
#include "cli/text_table.h"

namespace opentrn::cli {
namespace {

using arch::Tables;

struct LsOptions {
  bool json = false;
  TableOptions tables;
};

std::string peak(const arch::PeakTflops& rates, std::string_view dtype) {
  const auto found = rates.find(dtype);
  return found == rates.end() ? "-" : cell(found->second);
}

std::string total(const arch::Totals& sum, const std::string& dtype) {
  const auto found = sum.peak_tflops.find(dtype);
  return found == sum.peak_tflops.end() ? "-" : cell(found->second);
}

// In dollars and cents; a missing rate is one that is not published.
std::string price(const arch::Spec<double>& usd_h) {
  return usd_h.known() ? fmt::format("{:.2f}", usd_h.value()) : "?";
}

// FP8 as the chip has it: plain, or microscaled on Trainium3.
std::string fp8_peak(const arch::PeakTflops& rates) {
  return rates.contains("mxfp8") ? peak(rates, "mxfp8") : peak(rates, "fp8");
}

std::string kib(const arch::Spec<int64_t>& bytes) { return bytes.known() ? cell(bytes / 1024.0) : "?"; }

// "16x23": engines and the GB/s of each.
std::string dma(const arch::NeuronCore& core) {
  const bool known = core.dma_engines.known() && core.dma_engine_gb_s.known();
  return known ? fmt::format("{}x{}", cell(core.dma_engines), cell(core.dma_engine_gb_s)) : "?";
}

std::string section(std::string_view title, const TextTable& table) {
  return fmt::format("{}\n{}\n", title, table.str());
}

std::string cores(const Tables& tables) {
  TextTable table(
      {"name", "Tensor", "Vector", "Scalar", "GpSimd", "SBUF", "PSUM", "DMA", "HBM", "BF16", "FP8", "FP32"});
  for (const auto& core : tables.neuron_cores())
    table.add_row({core.name, cell(core.tensor_clock_ghz), cell(core.vector_clock_ghz),
                   cell(core.scalar_clock_ghz), cell(core.gpsimd_clock_ghz),
                   kib(core.sbuf_bytes_per_partition), kib(core.psum_bytes_per_partition), dma(core),
                   cell(core.hbm_bandwidth_gb_s), peak(core.peak_tflops, "bf16"), fp8_peak(core.peak_tflops),
                   peak(core.peak_tflops, "fp32")});
  return section(
      "NeuronCores: clocks in GHz, KiB per partition, DMA engines x GB/s of each, GB/s\n"
      "of HBM, dense TFLOPS",
      table);
}

std::string chips(const Tables& tables) {
  TextTable table(
      {"name", "cores", "of", "GiB", "GB/s", "BF16", "FP8", "FP32", "sparse", "links", "GB/s", "CC"});
  for (const auto& chip : tables.chips())
    table.add_row({chip.name, cell(chip.cores), std::string(table_key(chip.generation)),
                   cell(chip.memory_gib), cell(chip.memory_bandwidth_gb_s), peak(chip.peak_tflops, "bf16"),
                   fp8_peak(chip.peak_tflops), peak(chip.peak_tflops, "fp32"),
                   peak(chip.peak_tflops, "sparse"), cell(chip.neuronlink_links), cell(chip.neuronlink_gb_s),
                   cell(chip.cc_cores)});
  return section(
      "Chips: device memory, data-sheet TFLOPS (FP8 is MXFP8 on Trainium3), NeuronLinks\n"
      "and the rate of all of them, CC-cores",
      table);
}

std::string instances(const Tables& tables) {
  TextTable table({"name", "chips", "of", "host", "GiB", "BF16", "topology", "Gbps", "USD/h"});
  for (const auto& instance : tables.instances()) {
    const arch::Totals sum = arch::totals(tables, instance);
    table.add_row({instance.name, cell(instance.chips), instance.chip, cell(instance.host_memory_gib),
                   cell(sum.memory_gib), total(sum, "bf16"), cell(instance.topology),
                   cell(instance.network_gbps), price(instance.price.on_demand_usd_h)});
  }
  return section(
      "Instances: memory of host and devices in GiB, TFLOPS of all chips, network,\n"
      "on-demand price in us-east-1",
      table);
}

std::string ultraservers(const Tables& tables) {
  TextTable table({"name", "chips", "of", "GiB", "BF16", "topology", "Gbps", "USD/h"});
  for (const auto& server : tables.ultraservers()) {
    const arch::Totals sum = arch::totals(tables, server);
    table.add_row({server.name, cell(sum.chips), server.chip, cell(sum.memory_gib), total(sum, "bf16"),
                   cell(server.topology), cell(server.network_gbps), price(server.price.on_demand_usd_h)});
  }
  return section("UltraServers", table);
}

std::string ultraclusters(const Tables& tables) {
  TextTable table({"name", "chip", "chips up to", "network"});
  for (const auto& cluster : tables.ultraclusters())
    table.add_row({cluster.name, cluster.chip, cell(cluster.chips_max), cell(cluster.network)});
  return section("UltraClusters", table);
}

std::string comparison_chips(const Tables& tables) {
  TextTable table({"name", "GB", "GB/s", "BF16", "achieved", "FP8", "FP32", "link GB/s", "W"});
  for (const auto& chip : tables.comparison_chips())
    table.add_row({chip.name, cell(chip.memory_gb), cell(chip.memory_bandwidth_gb_s),
                   peak(chip.peak_tflops, "bf16"),
                   chip.achieved_tflops.contains("bf16") ? peak(chip.achieved_tflops, "bf16") : "?",
                   peak(chip.peak_tflops, "fp8"), peak(chip.peak_tflops, "fp32"), cell(chip.scale_up_gb_s),
                   cell(chip.tdp_w)});
  return section("Chips of other makers: dense TFLOPS, best measured BF16 matmul, scale-up link\none way",
                 table);
}

std::string comparison_instances(const Tables& tables) {
  TextTable table({"name", "chips", "of", "Gbps", "USD/h", "capacity block"});
  for (const auto& instance : tables.comparison_instances())
    table.add_row({instance.name, cell(instance.chips), cell(instance.chip), cell(instance.network_gbps),
                   price(instance.price.on_demand_usd_h), price(instance.price.capacity_block_usd_h)});
  return section("Instances of other chips", table);
}

std::string list_text(const Tables& tables) {
  return cores(tables) + chips(tables) + instances(tables) + ultraservers(tables) + ultraclusters(tables) +
         comparison_chips(tables) + comparison_instances(tables) +
         "? = no public source gives it; - = does not apply. `opentrn describe <name>`\n"
         "says more, and where each number is from.\n";
}

template <typename Items>
nlohmann::ordered_json json_list(const Tables& tables, const Items& items) {
  auto out = nlohmann::ordered_json::array();
  for (const auto& item : items) {
    nlohmann::ordered_json entry{{"name", item.name}};
    for (const arch::Fact* fact : tables.facts().under(item.key))
      entry[fact->key.substr(item.key.size() + 1)] = cli::json_of(fact->value);
    for (const arch::Fact* fact : tables.facts().under("price." + item.name))
      entry["price." + std::string(fact->name())] = cli::json_of(fact->value);
    out.push_back(std::move(entry));
  }
  return out;
}

nlohmann::ordered_json list_json(const Tables& tables) {
  return {{"neuron_cores", json_list(tables, tables.neuron_cores())},
          {"chips", json_list(tables, tables.chips())},
          {"instances", json_list(tables, tables.instances())},
          {"ultraservers", json_list(tables, tables.ultraservers())},
          {"ultraclusters", json_list(tables, tables.ultraclusters())},
          {"comparison_chips", json_list(tables, tables.comparison_chips())},
          {"comparison_instances", json_list(tables, tables.comparison_instances())}};
}

}  // namespace

void add_ls(CLI::App& app, std::ostream& out) {
  auto options = std::make_shared<LsOptions>();
  CLI::App* command =
      app.add_subcommand("ls", "List NeuronCores, chips, instances, UltraServers and comparison chips");
  command->add_flag("--json", options->json, "Print JSON: all values by table key, unknown ones null");
  options->tables.add_to(*command);
  command->callback([options, &out] {
    const auto tables = options->tables.load();
    out << (options->json ? list_json(*tables).dump(2) + "\n" : list_text(*tables));
  });
}

}  // namespace opentrn::cli
