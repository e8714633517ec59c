#include "arch/price.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace opentrn::arch {

namespace {

struct Rented {
  std::string name;
  int cores = 0;  // physical
  const Price* price = nullptr;
};

std::string letters_small(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

// "trn1" of trn1.2xlarge, trn1.32xlarge and trn1n.32xlarge.
bool is_of_family(const Instance& instance, std::string_view target) {
  std::string_view family = std::string_view(instance.name).substr(0, instance.name.find('.'));
  if (family == target) return true;
  const size_t digits = family.find_last_of("0123456789");
  return digits != std::string_view::npos && family.substr(0, digits + 1) == target;
}

std::vector<Rented> candidates(const Tables& tables, std::string_view target) {
  const auto of = [&](const Instance& each) {
    return Rented{each.name, each.chips * int{tables.chip(each.chip).cores}, &each.price};
  };
  const std::string name = letters_small(target);
  if (const Instance* instance = tables.find_instance(target)) return {of(*instance)};
  if (const UltraServer* server = tables.find_ultraserver(target))
    return {{server->name, server->servers * server->chips_per_server * int{tables.chip(server->chip).cores},
             &server->price}};
  const Generation generation = tables.resolve_target(target);
  std::vector<Rented> of_family, of_chip, of_generation;
  for (const Instance& each : tables.instances()) {
    if (is_of_family(each, name)) of_family.push_back(of(each));
    if (letters_small(each.chip) == name) of_chip.push_back(of(each));
    if (tables.chip(each.chip).generation == generation) of_generation.push_back(of(each));
  }
  if (!of_family.empty()) return of_family;
  return of_chip.empty() ? of_generation : of_chip;
}

}  // namespace

std::map<std::string, std::optional<CoreRate>> rates_of_core(const Tables& tables, std::string_view target,
                                                             int physical_cores_per_core) {
  std::map<std::string, std::optional<CoreRate>> rates{
      {"on_demand", std::nullopt}, {"reserved", std::nullopt}, {"capacity_block", std::nullopt}};
  for (const Rented& each : candidates(tables, target)) {
    const auto take = [&](const char* kind, const Spec<double>& rate) {
      if (!rate.known()) return;
      const double usd_h = rate / each.cores * physical_cores_per_core;
      std::optional<CoreRate>& least = rates[kind];
      if (!least || usd_h < least->usd_h) least = CoreRate{usd_h, each.name};
    };
    take("on_demand", each.price->on_demand_usd_h);
    take("reserved", each.price->reserved_usd_h);
    take("capacity_block", each.price->capacity_block_usd_h);
  }
  return rates;
}

}  // namespace opentrn::arch
