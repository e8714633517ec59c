// What runs forward again in the backward pass: of a block the products that are not kept, and of a stage the
// blocks that do so.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/job.h"
#include "planner/stack.h"

namespace opentrn::planner {

// Of a block's products, those whose results are kept for the backward pass beside the block's input. All
// else that it needs is made again of them.
struct KeptProducts {
  bool query = false, key = false, value = false;
  bool context = false;  // what attention gives
  bool out = false;      // of its output layer
  bool gate = false, up = false;
  bool down = false;     // the block's last one, which only experts' shares need again
  bool sums = false;     // of a block's parts over ranks: nothing meets again
  bool on_host = false;  // kept in the host's memory until the backward pass
};

// nullopt: not of this kind (none, attention's inside, all).
std::optional<KeptProducts> kept_products(Recompute recompute, const Stack& stack, bool with_experts);

std::string_view to_string(Recompute recompute);
// "none", "selective", "full", and MaxText's policies; a name that a program has since replaced is found too.
std::vector<std::string> recompute_names();
std::optional<Recompute> recompute_named(std::string_view name);

// What a search tries of a program: what it has and does differently from another one of them.
std::vector<Recompute> searched(const Stack& stack, bool has_experts);
bool recomputes_some(const Stack& stack);  // of a stage's blocks
// Why a program cannot do it; empty where it can.
std::string unknown_to_because(const Stack& stack, std::optional<Recompute> recompute, int layers);

// Of `blocks` of a stage, those that run forward again.
double blocks_again(const Layout& layout, double blocks);
std::string no_recomputation_because(const Model& model, const Layout& layout);

// The fewest blocks of a chunk with which a layout fits, where all of them do and none does not; else 0.
int fewest_again(const Job& job, const Machine& machine, const Stack& stack, Layout layout);

}  // namespace opentrn::planner
