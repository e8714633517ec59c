#include <fmt/format.h>

#include "planner/memory.h"
#include "planner/recompute.h"
#include "planner/schedule.h"
#include "planner/step.h"

namespace opentrn::planner {

std::string_view to_string(Precision precision) {
  switch (precision) {
    case Precision::kBf16: return "bf16";
    case Precision::kFp8: return "fp8";
    case Precision::kFp32: return "fp32";
  }
  return "?";
}

std::string to_string(const Layout& layout) {
  std::string text;
  const auto add = [&](const char* name, int64_t value) {
    if (value > 1) text += fmt::format("{}{}{}", text.empty() ? "" : " ", name, value);
  };
  add("TP", layout.tp);
  add("CP", layout.cp);
  add("PP", layout.pp);
  add("VP", layout.vpp);
  if (layout.schedule != Schedule::k1F1B) text += fmt::format(" {}", to_string(layout.schedule));
  add("EP", layout.ep);
  add("DP", layout.dp);
  if (text.empty()) text = "DP1";
  if (layout.sp) text += " SP";
  if (layout.offload) text += " offload";
  text += fmt::format(" Z{} mb{}", int{layout.zero}, layout.micro_batch);
  if (layout.recompute != Recompute::kNone) text += fmt::format(" {}", to_string(layout.recompute));
  if (layout.recompute_layers > 0) text += fmt::format(":{}", layout.recompute_layers);
  return text;
}

std::string illegal_because(const Job& job, const Machine& machine, const Layout& layout) {
  const Model& model = job.model;
  const auto divides = [](double whole, int64_t by) {
    return by > 0 && whole == double(int64_t(whole) / by * by);
  };
  if (layout.tp < 1 || layout.cp < 1 || layout.pp < 1 || layout.dp < 1 || layout.vpp < 1 || layout.ep < 1 ||
      layout.micro_batch < 1)
    return "every degree is at least 1";
  if (job.precision == Precision::kFp8 && !machine.has_fp8)
    return fmt::format("{} has no products of float8 (--precision bf16)", machine.chip);
  if (layout.ranks() != machine.ranks)
    return fmt::format("tp x cp x pp x dp = {} ranks, and the machine has {}", layout.ranks(), machine.ranks);
  if (!divides(model.heads, layout.tp))
    return fmt::format("tp {} does not divide {} attention heads", layout.tp, model.heads);
  if (!divides(model.ffn > 0 ? model.ffn : model.expert_ffn, layout.tp))
    return fmt::format("tp {} does not divide the MLP's width", layout.tp);
  if (layout.tp > machine.domain)
    return fmt::format("tp {} is more than the {} ranks that fast links join", layout.tp, machine.domain);
  if (layout.pp > model.layers) return fmt::format("pp {} is more than {} layers", layout.pp, model.layers);
  const bool in_ticks = layout.pp > 1 && shares_ends(layout.schedule);
  if (in_ticks && int64_t{layout.pp} * layout.vpp > model.layers)
    return fmt::format("pp x vpp = {} is more than {} layers", layout.pp * layout.vpp, model.layers);
  if (layout.vpp > 1 && !in_ticks && !chunks_are_whole(model, layout))
    return fmt::format("pp x vpp = {} divides neither {} layers nor two more", layout.pp * layout.vpp,
                       model.layers);
  if (!divides(job.seq, int64_t{layout.cp} * (layout.cp > 1 ? 2 : 1) * (layout.sp ? layout.tp : 1)))
    return fmt::format("cp and sp do not divide a sequence of {}", job.seq);
  if (!divides(job.global_batch, int64_t{layout.dp} * layout.micro_batch))
    return fmt::format("dp x micro-batch = {} does not divide a global batch of {}",
                       int64_t{layout.dp} * layout.micro_batch, job.global_batch);
  const double m = job.global_batch / (double(layout.dp) * layout.micro_batch);
  if (std::string why = no_order_because(layout.schedule, layout.pp, layout.vpp, static_cast<int64_t>(m));
      !why.empty())
    return why;
  if (is_v_shaped(layout.schedule) && !divides(model.layers, 2 * int64_t{layout.pp}))
    return fmt::format("{} has two chunks on each of {} stages, which do not divide {} layers",
                       to_string(layout.schedule), layout.pp, model.layers);
  if (in_ticks && (layout.recompute != Recompute::kFull || layout.recompute_layers > 0))
    return fmt::format("all blocks of {} run forward again: --recompute full", to_string(layout.schedule));
  if (std::string why = no_recomputation_because(model, layout); !why.empty()) return why;
  if (layout.ep > 1 && model.experts == 0) return fmt::format("ep {} of a model without experts", layout.ep);
  if (layout.ep > 1 && !divides(model.experts, layout.ep))
    return fmt::format("ep {} does not divide {} experts", layout.ep, model.experts);
  if (!divides(double(layout.dp) * layout.cp, layout.ep))
    return fmt::format("ep {} does not divide dp x cp = {}", layout.ep, int64_t{layout.dp} * layout.cp);
  if (layout.zero >= 2 && layout.pp > 1)
    return "ZeRO 2 and 3 reduce after every micro-batch: not with stages";
  if (layout.sp && layout.tp == 1) return "sp cuts over tp, which is 1";
  return {};
}

}  // namespace opentrn::planner
