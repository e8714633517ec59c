#include "planner/compiled/collective_waits.h"

#include <algorithm>
#include <array>
#include <optional>

#include "arch/tables.h"
#include "base/fault.h"
#include "planner/compiled/waiting_steps.h"
#include "planner/compiled/weight_waits.h"
#include "planner/links.h"
#include "planner/schedule.h"

namespace opentrn::planner::compiled {
namespace {

using collectives::Kind;

// When in a piece something is there or wanted, as a share of its time, as in compiled steps of a few
// exported models (decision 0193) [assumed]: the largest logit of each token; behind the logits' gradient
// that of their input where norms stand alone, and of the table where they do not; the table there; attention
// that runs again beside a piece; a norm that runs again beside another; of experts, gradients of places,
// which come before those of shares; and those of tokens wanted, behind the router's.
constexpr double kLargestLogitAt = 0.8, kGradientBehindLogitsAt = 0.8, kTableGradientAt = 0.87,
                 kTableReadAt = 0.5, kPlacesAt = 0.5, kTokensReadAt = 0.3, kAttendedAgainAt = 2. / 3,
                 kNormedAgainAt = 0.75;
// ... with context parallelism, values before keys are turned; and gradients of both before those of queries.
constexpr double kValuesMadeAt = 0.7, kValuesGivenAt = 0.75, kKeysGivenAt = 0.9;

double by_tiers_s(const Machine& machine, Kind kind, Group group, double bytes) {
  switch (kind) {
    case Kind::kAllReduce: return all_reduce_s(machine, group, bytes);
    case Kind::kAllToAll: return all_to_all_s(machine, group, bytes);
    default: return all_gather_s(machine, group, bytes);
  }
}

class MicroBatch {
 public:
  MicroBatch(const MicroBatchPasses& passes, const Machine& machine, const Layout& layout,
             CollectiveTimes& times, bool sums)
      : passes_(passes),
        is_cut_(layout.sp && layout.tp > 1),
        stand_alone_(passes.norm.seconds > 0),
        recomputes_late_(layout.zero >= 3),
        group_{layout.tp, 1},
        stages_{passes.stages, int64_t{layout.tp} * layout.cp * layout.dp},
        ends_{layout.tp * passes.stages, 1},
        context_{passes.context, layout.tp},
        inside_(passes.own_sequences ? InsideRank() : InsideRank::of(machine)),
        steps_(machine, times),
        weights_(passes, layout, steps_, sums,
                 passes.own_sequences ? InsideRank::of(machine) : InsideRank()) {}

  // Of a pipeline in ticks: what a stage does on one, and for a loss. `sends`: whether to the next stage.
  double forward_tick_s(bool sends) {
    forward();
    if (sends) send(last_);
    return steps_.wait_s();
  }
  double backward_tick_s(bool sends) {
    blocks_backward();
    if (sends) send(is_cut_ ? gradient_ : terms_);
    ends();
    return steps_.wait_s();
  }
  // Of 1F1B in ticks. `ends`: with what is looked up for the next tick, what was before, and the loss.
  struct Tick {
    bool forward = false, backward = false, ends = false, sends = true;
  };
  double alternating_tick_s(const Tick& tick) {
    const bool has_loss = tick.forward && tick.backward && tick.ends;
    if (tick.ends && tick.backward) ends();  // of the tick before
    if (tick.forward) {
      blocks_forward(Value());
      if (tick.sends) send(last_);
      if (tick.ends) looked_up();
    }
    gradient_ = Value();
    if (has_loss) {
      last_ = shared(last_);
      loss();
      gradient_ = shared(gradient_);
    }
    if (tick.backward) {
      blocks_backward();
      if (tick.sends) send(is_cut_ ? gradient_ : terms_);
    }
    return steps_.wait_s();
  }
  // Of a table that is both ends: once in a step, its gradient too.
  double exchange_s() {
    for (int i = 0; i < 2; ++i)
      steps_.part({}, {{steps_.collective(Kind::kAllToAll, ends_, passes_.embedding_bytes, Value()), 0}},
                  {{steps_.fresh(), 1}});
    return steps_.wait_s();
  }
  double loss_s() {
    last_ = shared(Value());
    loss();
    shared(gradient_);
    return steps_.wait_s();
  }

  double wait_s() {
    forward();
    loss();
    for (int i = passes_.layers; i-- > 0;) backward(i);
    ends();
    return steps_.wait_s();
  }

 private:
  static constexpr int kNone = -1;  // no block

  // Between blocks: sequences are cut, or every rank has all of them.
  Value summed(Value value, bool in_parts = false) {
    return steps_.collective(is_cut_ || in_parts ? Kind::kReduceScatter : Kind::kAllReduce, group_,
                             passes_.activation_bytes, value, inside_.scattered_s(passes_.activation_bytes));
  }
  Value whole(Value value) {
    return steps_.collective(Kind::kAllGather, is_cut_ ? group_ : Group{}, passes_.activation_bytes, value,
                             inside_.meeting_s);
  }
  // From a stage to the one beside it; and what one stage has, summed, on all of them.
  void send(Value value) { steps_.collective(Kind::kPermute, stages_, cut_bytes(), value); }
  Value shared(Value value) { return steps_.collective(Kind::kAllReduce, stages_, cut_bytes(), value); }
  double cut_bytes() const { return passes_.activation_bytes / (is_cut_ ? double(group_.ranks) : 1); }
  // Of the numbers of each token, stages have parts.
  double own_bytes() const { return passes_.activation_bytes / double(stages_.ranks); }

  Value of_tokens(Value value) {
    return steps_.collective(Kind::kAllReduce, ends_, passes_.token_bytes, value,
                             inside_.summed_s(passes_.token_bytes));
  }
  // Of a gradient behind a half, where a norm that stands alone comes before ranks add it up: its cores do.
  bool sums_behind(const PieceTime& norm) const { return norm.seconds > 0 && !is_cut_; }
  Value summed_inside(Value value) {
    return steps_.collective(Kind::kReduceScatter, {}, 0, value,
                             inside_.scattered_s(passes_.activation_bytes));
  }
  Value summed_behind(Value value, bool in_parts) {
    return steps_.collective(in_parts ? Kind::kReduceScatter : Kind::kAllReduce, group_,
                             passes_.activation_bytes, value);
  }
  // A norm that stands alone, of what ranks have added up.
  Value normed_alone(const PieceTime& norm, Value value, double given_at = 1) {
    if (norm.seconds <= 0) return value;
    const Value made = steps_.fresh();
    steps_.part(norm, {{value, 0}}, {{made, given_at}});
    return made;
  }
  // ... and what the half behind it reads.
  Value normed(const PieceTime& norm, Value value) { return whole(normed_alone(norm, value)); }

  Value half_forward(const HalfPasses& half, const Touches& weights, Value value) {
    if (is_attention(half) && halves_tokens())
      return attended_by_rows(weights, normed_alone(half.norm, value));
    if (is_attention(half) && in_context()) return attended_in_context(weights, normed(half.norm, value));
    return summed(steps_.made_by(half.first, joined({{normed(half.norm, value), 0}}, weights)));
  }
  // A block's other half where it has experts.
  Value experts_forward(int layer, Value value) {
    const ExpertPasses& experts = *passes_.experts;
    if (has_halves()) {
      const Value made = made_of_halves(layer, value, false);
      return summed_of_halves(steps_.made_by(experts.combine.forward, {{made, 0}, {shared_sum_, 0}}));
    }
    const Value made = experts_made(layer, value, experts.route.forward, experts.shared_forward);
    return summed(steps_.made_by(experts.combine.forward, {{made, 0}}));
  }
  // What experts make of tokens, back at the tokens' ranks. Those that every token meets, the last `share` of
  // `route`, work while tokens go to theirs.
  Value experts_made(int layer, Value value, const PieceTime& route, double share) {
    const Touches reads{{normed(passes_.mlp.norm, value), 0}};
    const Value sent = steps_.fresh();
    steps_.part(route, joined(reads, within(shared_[size_t(layer)], 1 - share, 1)), {{sent, 1 - share}});
    const Value there = exchanged(sent);
    return exchanged(
        steps_.made_by(passes_.experts->experts.forward, joined({{there, 0}}, mlp_[size_t(layer)])));
  }
  Value exchanged(Value value) {
    return steps_.collective(Kind::kAllToAll, {passes_.experts->ranks, group_.ranks * passes_.context},
                             passes_.experts->exchanged_bytes, value);
  }
  // -- experts of a rank whose cores have halves of its tokens (decision 0251)
  bool has_halves() const { return passes_.experts->places.forward.seconds > 0; }
  Value inside(Value value) { return steps_.collective(Kind::kAllGather, {}, 0, value, inside_.meeting_s); }
  // Sequence parallelism cuts tokens, and so do the cores where they cannot cut sequences: otherwise.
  double halves_turned_s() const {
    return is_cut_ && passes_.experts->counts.forward.seconds > 0 ? inside_.meeting_s : 0;
  }
  Value own_halves(Value value) {
    return is_cut_ ? steps_.collective(Kind::kAllGather, group_, passes_.activation_bytes, value,
                                       halves_turned_s())
                   : value;
  }
  Value summed_of_halves(Value value) {
    return steps_.collective(is_cut_ ? Kind::kReduceScatter : Kind::kAllReduce, group_,
                             passes_.activation_bytes, value, 2 * halves_turned_s());
  }
  // What the experts' cores have terms of, to or from the places' ranks.
  Value exchanged_sum(Value terms) {
    return exchanged(steps_.collective(Kind::kAllReduce, {}, 0, terms,
                                       inside_.summed_s(passes_.experts->exchanged_bytes)));
  }
  // `again`: for the backward pass, which does not read what the experts that every token meets give.
  Value made_of_halves(int layer, Value value, bool again) {
    const ExpertPasses& experts = *passes_.experts;
    const Value own = own_halves(normed_alone(passes_.mlp.norm, value));
    Value chosen = steps_.made_by(again ? experts.route_again : experts.route.forward, {{own, 0}});
    if (experts.counts.forward.seconds > 0)
      chosen = steps_.made_by(experts.counts.forward, {{inside(chosen), 0}});
    // Places, what is there, and the tokens' numbers.
    const Touches all{{inside(chosen), 0}, {inside(chosen), 0}, {inside(chosen), 0}};
    const Value sent = exchanged(steps_.made_by(experts.places.forward, all));
    const Touches& weights = shared_[size_t(layer)];
    if (again)
      steps_.part(experts.shared_again_alone, joined({{inside(own), 0}}, weights), {});
    else
      shared_sum_ = of_shared(experts.shared_alone.forward, inside(own), weights, {});
    const Value there = inside(sent);
    return exchanged_sum(steps_.made_by(experts.experts.forward, joined({{there, 0}}, mlp_[size_t(layer)])));
  }
  // Of all tokens, while those of other experts are under way; then cores add up what their columns give.
  Value of_shared(const PieceTime& time, Value tokens, const Touches& weights, Touches writes) {
    if (time.seconds <= 0) return Value();
    const Value terms = steps_.fresh();
    writes.push_back({terms, 1});
    steps_.part(time, joined({{tokens, 0}}, weights), writes);
    return steps_.collective(Kind::kReduceScatter, {}, 0, terms,
                             inside_.scattered_s(passes_.activation_bytes));
  }
  void halves_backward(int layer) {
    const ExpertPasses& experts = *passes_.experts;
    const Value d_halves = own_halves(gradient_);
    Touches all{{d_halves, 0}};
    if (passes_.recompute) all.push_back({made_of_halves(layer, again_, true), 0});
    const Value d_own = steps_.made_by(experts.combine.backward, all);
    const Value d_tokens = inside(d_own), d_logits = inside(d_own);
    const Value d_places = steps_.fresh(), of_router = steps_.fresh(), d_made = steps_.fresh();
    const size_t known = weights_.count();
    steps_.part(experts.places.backward, {{d_tokens, 0}, {d_logits, kPlacesAt}},
                {{d_places, kPlacesAt}, {of_router, 1}});
    const Value sent = exchanged(d_places);
    const Touches shared_gradients = fresh_of(experts.shared);
    const Value d_shared =
        of_shared(experts.shared_alone.backward, inside(d_halves), shared_[size_t(layer)], shared_gradients);
    for (size_t i = 0; i < shared_gradients.size(); ++i)
      weights_.sum(experts.shared, shared_gradients[i].value, experts.shared.weights[i].bytes);
    const Value there = inside(sent);
    weights_.sum(of_router, experts.router_bytes);
    const Touches writes = fresh_of(passes_.mlp);
    steps_.part(experts.experts.backward, joined({{there, 0}}, mlp_[size_t(layer)]),
                joined({{d_made, 1}}, writes));
    const Value back = exchanged_sum(d_made);
    for (size_t i = 0; i < writes.size(); ++i)
      weights_.sum(passes_.mlp, writes[i].value, passes_.mlp.weights[i].bytes);
    gradient_ =
        summed_of_halves(steps_.made_by(experts.route.backward, {{back, 0}, {d_own, 0}, {d_shared, 0}}));
    weights_.update(known);
    norm_backward(passes_.mlp.norm_backward, 1, kNone);
  }

  void experts_backward(int layer) {
    const ExpertPasses& experts = *passes_.experts;
    const Touches& reads = mlp_[size_t(layer)];
    Touches all{{whole_gradient_, 0}};
    if (passes_.recompute)
      all.push_back({experts_made(layer, again_, experts.route_again, experts.shared_again), 0});
    const Value d_places = steps_.fresh();
    const double before = 1 - experts.shared_backward;
    const Touches of_shared = within(fresh_of(experts.shared), before, 1), writes = fresh_of(passes_.mlp);
    steps_.part(experts.combine.backward, joined(all, within(shared_[size_t(layer)], before, 1)),
                joined({{d_places, kPlacesAt * before}}, of_shared));
    const Value d_made = exchanged(d_places);
    const Value d_tokens = steps_.fresh(), given = steps_.fresh(), of_router = steps_.fresh();
    const size_t known = weights_.count();
    for (size_t i = 0; i < of_shared.size(); ++i)
      weights_.sum(experts.shared, of_shared[i].value, experts.shared.weights[i].bytes);
    steps_.part(experts.experts.backward, joined({{d_made, 0}}, reads), joined({{d_tokens, 1}}, writes));
    const Value back = exchanged(d_tokens);
    for (size_t i = 0; i < writes.size(); ++i)
      weights_.sum(passes_.mlp, writes[i].value, passes_.mlp.weights[i].bytes);
    steps_.part(experts.route.backward, {{back, kTokensReadAt}}, {{given, 1}, {of_router, kTokensReadAt}});
    gradient_ = summed(given);
    weights_.sum(of_router, experts.router_bytes);
    weights_.update(known);
    norm_backward(passes_.mlp.norm_backward, 1, kNone);
  }

  // Gradients of a half's weights.
  Touches fresh_of(const HalfPasses& half) {
    Touches writes;
    for (const WeightTensor& each : half.weights) writes.push_back({steps_.fresh(), each.made_at});
    return writes;
  }

  bool is_attention(const HalfPasses& half) const { return &half == &passes_.attention; }

  // Attention behind its norm, or with it, of cores that have rows and do not add up what they give.
  Value attended_by_rows(const Touches& weights, Value normal) {
    const HalfPasses& half = passes_.attention;
    Value value = whole_by_rows(normal);
    const Value tokens = passes_.reads_tokens ? inside(value) : Value();
    if (passes_.context > 1) {
      const Touches all = keys_of_all(value, weights, half.head_bytes > 0 ? inside_.meeting_s : 0);
      return summed_by_rows(steps_.made_by(half.forward, joined(all, weights)));
    }
    if (half.key_bytes > 0)
      value = steps_.collective(Kind::kAllGather, {}, 0,
                                steps_.made_by(half.before_keys, joined({{value, 0}}, weights)),
                                inside_.meeting_s);
    const Value made = steps_.made_by(half.forward, joined({{value, 0}, {tokens, 0}}, weights));
    return passes_.compresses ? summed(made) : summed_by_rows(made);
  }
  // Attention behind its norm, of ranks that have a part of each sequence and gather keys, then values.
  bool in_context() const { return passes_.attention.key_bytes > 0 && !halves_tokens(); }
  bool halves_tokens() const { return passes_.by_rows || passes_.compresses; }
  Value attended_in_context(const Touches& weights, Value normal) {
    const HalfPasses& half = passes_.attention;
    const Touches all = keys_of_all(normal, weights, 0);
    return summed(steps_.made_by(half.forward, joined(all, weights)));
  }
  // `before_s`: what the cores of a rank take first. Values are there before keys, which have positions.
  Touches keys_of_all(Value read, const Touches& weights, double before_s) {
    const Value keys = steps_.fresh(), values = steps_.fresh();
    steps_.part(passes_.attention.before_keys, joined({{read, 0}}, weights),
                {{values, kValuesMadeAt}, {keys, 1}});
    return keys_met(Kind::kAllGather, {values, keys}, before_s);
  }
  Touches keys_met(Kind kind, const std::array<Value, 2>& read, double before_s = 0) {
    Touches both;
    for (const Value each : read)
      both.push_back({steps_.collective(kind, context_, passes_.attention.key_bytes / 2, each, before_s), 0});
    return both;
  }
  // Gradients of the output layer's weight and of queries' come before those of keys' and values'.
  void context_backward(const Touches& reads, const Touches& weights, bool is_last) {
    const HalfPasses& half = passes_.attention;
    const Value values = steps_.fresh(), keys = steps_.fresh(), given = steps_.fresh();
    Touches first{{values, kValuesGivenAt}, {keys, kKeysGivenAt}}, rest{{given, half.given_at}};
    for (size_t i = 0; i < weights.size(); ++i) (i < 2 ? first : rest).push_back(weights[i]);
    steps_.part(half.backward, reads, first);
    steps_.part(half.before_keys_backward, keys_met(Kind::kReduceScatter, {values, keys}), rest);
    terms_ = given;
    gradient_ = is_last && !is_cut_ && passes_.stages > 1 ? given : summed(given, is_last);
  }
  // What ranks of sequence parallelism have of each sequence; its halves are not the cores'.
  double turned_s() const { return is_cut_ && passes_.attention.key_bytes > 0 ? inside_.meeting_s : 0; }
  Value whole_by_rows(Value value) {
    return steps_.collective(Kind::kAllGather, is_cut_ ? group_ : Group{}, passes_.activation_bytes, value,
                             turned_s());
  }
  Value summed_by_rows(Value value, bool in_parts = false) {
    const bool has_own_sequences = passes_.context > 1 && passes_.attention.head_bytes <= 0;
    return steps_.collective(is_cut_ || in_parts ? Kind::kReduceScatter : Kind::kAllReduce, group_,
                             passes_.activation_bytes, value, has_own_sequences ? 0 : 2 * turned_s());
  }

  // What the stage behind gave goes back through this one's blocks.
  void blocks_backward() {
    if (!is_cut_) gradient_ = summed(gradient_);  // ranks have terms of it
    attention_.resize(size_t(passes_.layers));
    mlp_.resize(size_t(passes_.layers));
    shared_.resize(size_t(passes_.layers));
    again_ = half_forward(passes_.attention, {}, {});  // of the last block, with no piece above
    for (int i = passes_.layers; i-- > 0;) backward(i);
  }

  Touches shared_gathered(int layer) {
    return has_experts(layer) ? weights_.gathered(passes_.experts->shared) : Touches();
  }
  bool has_experts(int layer) const { return passes_.experts && layer >= passes_.dense; }
  const HalfPasses& mlp_of(int layer) const {
    return layer < passes_.dense ? passes_.dense_mlp : passes_.mlp;
  }

  void forward() { blocks_forward(looked_up()); }

  Value looked_up() {
    if (passes_.streams) made_of_time();
    const double tokens = own_bytes();
    table_ = weights_.gathered(passes_.embedding_bytes);
    Value value = steps_.made_by(passes_.embedding, {{table_, 0}});
    // Ranks have parts of each token's numbers.
    value = is_cut_ ? steps_.collective(Kind::kAllToAll, group_, tokens / double(group_.ranks), value,
                                        inside_.meeting_s)
                    : steps_.collective(Kind::kAllGather, group_, tokens, value, inside_.meeting_s);
    return steps_.collective(Kind::kAllGather, stages_, cut_bytes(), value);
  }

  void blocks_forward(Value value) {
    for (int i = 0; i < passes_.layers; ++i) {
      attention_.push_back(weights_.gathered(passes_.attention));
      value = half_forward(passes_.attention, attention_.back(), value);
      mlp_.push_back(weights_.gathered(mlp_of(i)));
      shared_.push_back(shared_gathered(i));
      value = has_experts(i) ? experts_forward(i, value) : half_forward(mlp_of(i), mlp_.back(), value);
    }
    last_ = value;
  }

  Value gathered_of_time(const PieceTime& time, double bytes) {
    return steps_.collective(Kind::kAllGather, group_, bytes, steps_.made_by(time, {{of_time_, 0}}));
  }
  // Of two streams, what scales, shifts and gates of all blocks are made of comes first.
  void made_of_time() {
    const StreamPasses& streams = *passes_.streams;
    of_time_ = steps_.collective(Kind::kAllReduce, group_, streams.time_bytes,
                                 steps_.made_by(streams.time.forward, {}));
    Touches reads{{of_time_, 0}};
    for (int i = 0; i < passes_.layers; ++i)
      reads.push_back({weights_.gathered(passes_.modulation_bytes), double(i) / passes_.layers});
    modulated_ = steps_.collective(Kind::kAllGather, group_, streams.made_bytes,
                                   steps_.made_by(streams.modulations.forward, reads));
  }
  void velocity_loss() {
    const StreamPasses& streams = *passes_.streams;
    const Value made = gathered_of_time(streams.last.forward, 2 * streams.time_bytes);
    const Value d = steps_.fresh(), d_output = steps_.fresh(), d_made = steps_.fresh();
    const int again = passes_.recompute ? passes_.layers - 1 : kNone;
    part_with_again(passes_.logits_backward,
                    {{last_, 0}, {made, 0}, {weights_.gathered(passes_.output_bytes), 0}},
                    {{d, 1}, {d_output, 1}, {d_made, 1}}, again);
    gradient_ = summed(d);
    weights_.sum(d_output, passes_.output_bytes);
    norm_backward({}, 1, again);
    last_modulation_ = steps_.collective(Kind::kReduceScatter, group_, 2 * streams.time_bytes, d_made);
  }
  void back_to_time() {
    const StreamPasses& streams = *passes_.streams;
    Value d = steps_.made_by(streams.last.backward, {{last_modulation_, 0}});
    const Value of_blocks = steps_.collective(Kind::kReduceScatter, group_, streams.made_bytes, gradient_);
    d = steps_.made_by(streams.modulations.backward, {{of_blocks, 0}, {d, 0}});
    for (int i = 0; i < passes_.layers; ++i) weights_.sum(d, passes_.modulation_bytes);
    d = steps_.collective(Kind::kAllReduce, group_, streams.time_bytes, d);
    steps_.part(streams.time.backward, {{d, 0}}, {});
  }

  // Of an image's first token alone, which ranks of sequence parallelism get from the one that has it; its
  // norm is one of the piece.
  void class_loss() {
    const auto of_class = [&](Value value) {
      return steps_.collective(Kind::kAllReduce, group_, passes_.class_bytes, value,
                               inside_.summed_s(passes_.class_bytes));
    };
    const Value output = weights_.gathered(passes_.output_bytes);
    const Value largest = steps_.fresh(), label = steps_.fresh(), d = steps_.fresh(),
                d_output = steps_.fresh();
    steps_.part(passes_.logits, {{is_cut_ ? of_class(last_) : last_, 0}, {output, 0}},
                {{largest, kLargestLogitAt}, {label, 1}});
    const Value of_all = of_tokens(largest), labels = of_tokens(label);
    const Value shares = of_tokens(steps_.made_by(passes_.shares, {{of_all, 0}}));
    const int again = passes_.recompute ? passes_.layers - 1 : kNone;
    part_with_again(passes_.logits_backward, {{shares, 0}, {labels, 0}, {output, kTableReadAt}},
                    {{d, 1}, {d_output, kTableGradientAt}}, again);
    gradient_ = is_cut_ ? of_class(d) : summed(d);  // a part of that of all tokens
    weights_.sum(d_output, passes_.output_bytes);
    norm_backward({}, 1, again);
  }

  // The largest logit of each token comes before the label's.
  void loss() {
    if (passes_.class_bytes > 0) return class_loss();
    if (passes_.streams) return velocity_loss();
    const bool is_tied = passes_.output_bytes <= 0;
    Value output = is_tied ? table_ : weights_.gathered(passes_.output_bytes);
    // One table has the parts of the vocabulary where it lies in parts of the tokens' numbers.
    const bool exchanges = is_tied && passes_.stages == 1;
    if (exchanges) output = steps_.collective(Kind::kAllToAll, group_, passes_.embedding_bytes, output);
    const Value largest = steps_.fresh(), label = steps_.fresh();
    steps_.part(passes_.logits, {{normed(passes_.norm, last_), 0}, {output, 0}},
                {{largest, kLargestLogitAt}, {label, 1}});
    const Value of_all = of_tokens(largest), labels = of_tokens(label);
    const Value shares = of_tokens(steps_.made_by(passes_.shares, {{of_all, 0}}));
    const Value d_output = steps_.fresh(), d = steps_.fresh();
    // A norm of its own leaves the table's gradient to the end; else the norm's comes behind both.
    const double given_at = stand_alone_ ? kGradientBehindLogitsAt : 1,
                 output_at = stand_alone_ ? 1 : kTableGradientAt;
    const int again = passes_.recompute && passes_.stages == 1 ? passes_.layers - 1 : kNone;
    part_with_again(passes_.logits_backward, {{shares, 0}, {labels, 0}, {output, kTableReadAt}},
                    {{d, given_at}, {d_output, output_at}}, again);
    const bool sums_later = sums_behind(passes_.norm_backward);
    gradient_ = sums_later ? summed_inside(d) : passes_.stages > 1 && !is_cut_ ? d : summed(d);
    if (exchanges)
      d_tied_ = steps_.collective(Kind::kAllToAll, group_, passes_.embedding_bytes, d_output);
    else if (!is_tied)
      weights_.sum(d_output, passes_.output_bytes);
    norm_backward(passes_.norm_backward, 1, again);
    if (sums_later && passes_.stages == 1) gradient_ = summed_behind(gradient_, false);
  }

  // With what the backward pass reads; a block of two streams begins with what it was given.
  const PieceTime& attended_again() const {
    return passes_.attention.again.seconds > 0 ? passes_.attention.again : passes_.attention.forward;
  }
  // Attention of a block that runs forward again does so where it needs nothing that is not there: in the
  // middle of the piece above (one that waits for gathered weights, behind it).
  void part_with_again(const PieceTime& time, const Touches& reads, Touches writes, int again) {
    if (again == kNone || stand_alone_ || recomputes_late_ || in_context()) {
      steps_.part(time, reads, writes);
      return;
    }
    const Value attended = steps_.fresh();
    writes.push_back({attended, kAttendedAgainAt});
    steps_.part(time + attended_again(), joined(reads, attention_[size_t(again)]), writes);
    again_ = summed(attended);
  }
  // ... or, where norms stand alone, behind its own norm, which is beside that of the piece above.
  void norm_backward(const PieceTime& norm, double given_at, int again) {
    if (again == kNone || (!stand_alone_ && !recomputes_late_ && !in_context())) {
      gradient_ = normed_alone(norm, gradient_, given_at);
      return;
    }
    if (recomputes_late_) {  // a block that runs again gathers again, as soon as the stream is free
      attention_[size_t(again)] = weights_.gathered(passes_.attention);
      mlp_[size_t(again)] = weights_.gathered(mlp_of(again));
      shared_[size_t(again)] = shared_gathered(again);
    }
    Value normal = gradient_;
    if (stand_alone_) {
      const Value read = gradient_;
      normal = steps_.fresh(), gradient_ = steps_.fresh();
      steps_.part(norm + passes_.attention.norm, {{read, 0}}, {{normal, kNormedAgainAt}, {gradient_, 1}});
      if (!halves_tokens()) normal = whole(normal);
    }
    if (halves_tokens()) {
      again_ = attended_by_rows(attention_[size_t(again)], normal);
      return;
    }
    if (in_context()) {
      again_ = attended_in_context(attention_[size_t(again)], normal);
      return;
    }
    again_ = summed(steps_.made_by(attended_again(), joined({{normal, 0}}, attention_[size_t(again)])));
  }

  // Gradients of weights are summed from where they are made. `before`: what of the piece comes before its
  // own work.
  void half_backward(const HalfPasses& half, const Touches& reads, const PieceTime& before,
                     const PieceTime& own, int again, bool is_last) {
    const PieceTime time = before + own;
    const auto at = [&](double share) { return (before.seconds + share * own.seconds) / time.seconds; };
    Touches writes;
    for (const WeightTensor& each : half.weights) writes.push_back({steps_.fresh(), at(each.made_at)});
    const Value given = steps_.fresh();
    const size_t known = weights_.count();
    Touches all = joined({{whole_gradient_, 0}}, reads);
    if (passes_.updates)
      for (const Touch& each : behind_) all.push_back({each.value, at(half.given_at)});
    const bool stays = is_last && !is_cut_ && passes_.stages > 1;
    const bool has_own_sums = is_attention(half) && (halves_tokens() || in_context());
    const bool sums_later = !has_own_sums && sums_behind(half.norm_backward);
    if (is_attention(half) && halves_tokens()) {
      rows_backward(all, writes, is_last);
    } else if (is_attention(half) && in_context()) {
      context_backward(all, writes, is_last);
    } else {
      part_with_again(time, all, joined({{given, at(half.given_at)}}, writes), again);
      terms_ = given;
      // The embedding's ranks have parts of each token's numbers, and stages before they add them up.
      gradient_ = sums_later ? summed_inside(given) : stays ? given : summed(given, is_last);
    }
    behind_.clear();
    for (size_t i = 0; i < writes.size(); ++i) {
      weights_.sum(half, writes[i].value, half.weights[i].bytes);
      behind_.push_back({weights_.last(), 0});
    }
    weights_.update(known);
    norm_backward(half.norm_backward, half.normed_at, again);
    if (!sums_later) return;
    terms_ = gradient_;
    if (!stays) gradient_ = summed_behind(gradient_, is_last);
  }

  // Of attention whose cores have rows: of its weights, the output layer's gradient comes before they add up
  // those of keys and values.
  void rows_backward(const Touches& reads, const Touches& weights, bool is_last) {
    const HalfPasses& half = passes_.attention;
    const Value given = steps_.fresh();
    if (half.key_bytes <= 0) {
      steps_.part(half.backward, reads, joined({{given, half.given_at}}, weights));
      gradient_ = summed_by_rows(given, is_last);
      return;
    }
    if (passes_.context > 1) {
      const double added_s = inside_.scattered_s(half.head_bytes / 2) + inside_.meeting_s;
      const Value values = steps_.fresh(), keys = steps_.fresh();
      steps_.part(half.backward, reads, {{values, kValuesGivenAt}, {keys, kKeysGivenAt}});
      steps_.part(half.before_keys_backward,
                  keys_met(Kind::kReduceScatter, {values, keys}, half.head_bytes > 0 ? added_s : 0),
                  joined({{given, half.given_at}}, weights));
      gradient_ = summed_by_rows(given, is_last);
      return;
    }
    const Value terms = steps_.made_by(half.backward, reads);
    const Value keys = steps_.collective(Kind::kReduceScatter, {}, 0, terms,
                                         inside_.meeting_s + inside_.scattered_s(half.key_bytes));
    const Value tokens = passes_.reads_tokens ? summed_inside(terms) : Value();
    steps_.part(half.before_keys_backward, {{keys, 0}, {tokens, 0}},
                joined({{given, half.given_at}}, weights));
    gradient_ = summed_by_rows(given, is_last);
  }

  void backward(int layer) {
    if (has_experts(layer) && has_halves()) {
      halves_backward(layer);
    } else if (has_experts(layer)) {
      whole_gradient_ = whole(gradient_);
      experts_backward(layer);
    } else {
      whole_gradient_ = whole(gradient_);
      mlp_backward(mlp_of(layer), mlp_[size_t(layer)]);
    }
    whole_gradient_ = whole(gradient_);
    const bool goes_on = passes_.recompute && layer > 0;
    half_backward(passes_.attention, attention_[size_t(layer)], {}, passes_.attention.backward,
                  goes_on ? layer - 1 : kNone, layer == 0);
  }

  void mlp_backward(const HalfPasses& half, Touches reads) {
    PieceTime before, own = half.backward;
    if (passes_.recompute) {
      // The first of the MLP's products needs nothing of what runs again.
      if (stand_alone_ && !half.mixes) {
        const double first = 0.5 / double(half.weights.size());
        steps_.part(first * own, {{whole_gradient_, 0}}, {});
        own = (1 - first) * own;
      }
      before = half.again;
      reads.push_back({normed(half.norm, again_), 0});
    }
    half_backward(half, reads, before, own, kNone, false);
  }

  void ends() {
    const double tokens = own_bytes();
    if (passes_.stages > 1) {
      gradient_ = steps_.collective(Kind::kReduceScatter, stages_, cut_bytes(), gradient_);
      if (!is_cut_) gradient_ = steps_.collective(Kind::kReduceScatter, group_, tokens, gradient_);
    }
    if (is_cut_)
      gradient_ = steps_.collective(Kind::kAllToAll, group_, tokens / double(group_.ranks), gradient_,
                                    inside_.meeting_s);
    if (passes_.streams) back_to_time();
    Value d_embedding = steps_.made_by(passes_.embedding_backward, {{gradient_, 0}, {d_tied_, 0}});
    if (passes_.table_sum.seconds > 0)
      d_embedding =
          steps_.made_by(passes_.table_sum,
                         {{steps_.collective(Kind::kAllToAll, {}, 0, d_embedding, inside_.meeting_s), 0}});
    weights_.sum(d_embedding, passes_.embedding_bytes);
    if (passes_.position_bytes > 0) weights_.sum(d_embedding, passes_.position_bytes);
    weights_.update_rest();
  }

  const MicroBatchPasses& passes_;
  const bool is_cut_, stand_alone_, recomputes_late_;
  const Group group_, stages_, ends_, context_;
  const InsideRank inside_;
  Steps steps_;
  Weights weights_;
  std::vector<Touches> attention_, mlp_, shared_;  // weights as pieces read them, by layer
  Value of_time_, modulated_, last_modulation_;    // of two streams
  Value table_, last_, gradient_, whole_gradient_, d_tied_, again_, shared_sum_;
  Value terms_;     // of a gradient, before ranks add it up
  Touches behind_;  // sums of the piece before
};

}  // namespace

CollectiveTimes::CollectiveTimes() = default;
CollectiveTimes::~CollectiveTimes() = default;

double CollectiveTimes::seconds(const Machine& machine, Kind kind, Group group, double bytes) {
  const int64_t unit = machine.ranks_per_server;
  const bool is_inside = group.ranks * group.stride <= unit && unit % (group.ranks * group.stride) == 0;
  if (!is_inside || machine.instance.empty()) return by_tiers_s(machine, kind, group, bytes);
  auto& links = links_[{machine.instance, machine.cores_per_rank}];
  if (!links)
    links = std::make_unique<Links>(arch::default_tables(), machine.instance, 1, machine.cores_per_rank,
                                    fabric::Cluster{});
  return links->seconds(kind, group, bytes);
}

namespace {

// Keys and values that nobody waits for.
MicroBatchPasses without_context(MicroBatchPasses passes) {
  passes.context = 1;
  return passes;
}

}  // namespace

namespace {

// Of 1F1B: ticks before the first loss, those with one, and those behind the last.
TickWaits alternating_waits(const MicroBatchPasses& passes, const Machine& machine, const Layout& layout,
                            CollectiveTimes& times) {
  const auto wait_s = [&](const MicroBatchPasses& of, MicroBatch::Tick tick) {
    return MicroBatch(of, machine, layout, times, false).alternating_tick_s(tick);
  };
  const auto apart_s = [&](bool ends) {
    return wait_s(passes, {.forward = true, .ends = ends}) + wait_s(passes, {.backward = true, .ends = ends});
  };
  const bool has_chunks = layout.vpp > 1;
  const auto tick_s = [&](const MicroBatchPasses& of, bool sends) {
    return wait_s(of, {.forward = true, .backward = true, .ends = !has_chunks, .sends = sends});
  };
  TickWaits waits;
  // Where a loss is on every tick but a few, ticks without one stand for what fills the pipeline.
  waits.tick_s = has_chunks ? tick_s(passes, true) : apart_s(false);
  const double with_loss = wait_s(passes, {.forward = true, .backward = true, .ends = true});
  waits.loss_s = with_loss - waits.tick_s;
  waits.ends_s = apart_s(true) - waits.tick_s;
  waits.sends_s = tick_s(passes, true) - tick_s(passes, false);
  if (passes.experts) {
    MicroBatchPasses alone = passes;
    alone.experts->ranks = 1;
    waits.experts_s = tick_s(passes, true) - tick_s(alone, true);
  }
  if (passes.context > 1) waits.context_s = tick_s(passes, true) - tick_s(without_context(passes), true);
  if (passes.output_bytes <= 0) waits.once_s = MicroBatch(passes, machine, layout, times, false).exchange_s();
  return waits;
}

}  // namespace

TickWaits tick_waits(const MicroBatchPasses& passes, const Machine& machine, const Layout& layout,
                     CollectiveTimes& times) {
  if (goes_both_ways(layout.schedule)) return alternating_waits(passes, machine, layout, times);
  const auto fresh = [&](const MicroBatchPasses& of) {
    return MicroBatch(of, machine, layout, times, false);
  };
  const auto tick_s = [&](const MicroBatchPasses& of, bool sends) {
    return fresh(of).forward_tick_s(sends) + fresh(of).backward_tick_s(sends);
  };
  TickWaits waits;
  waits.tick_s = tick_s(passes, true);
  waits.sends_s = waits.tick_s - tick_s(passes, false);
  if (passes.experts) {
    MicroBatchPasses alone = passes;
    alone.experts->ranks = 1;
    waits.experts_s = waits.tick_s - tick_s(alone, true);
  }
  if (passes.context > 1) waits.context_s = waits.tick_s - tick_s(without_context(passes), true);
  waits.loss_s = fresh(passes).loss_s();
  if (passes.output_bytes <= 0) waits.once_s = fresh(passes).exchange_s();
  return waits;
}

CollectiveWaits collective_waits(const MicroBatchPasses& passes, const Machine& machine, const Layout& layout,
                                 CollectiveTimes& times) {
  const auto wait_s = [&](const MicroBatchPasses& of, bool sums) {
    return MicroBatch(of, machine, layout, times, sums).wait_s();
  };
  CollectiveWaits waits;
  waits.activations_s = wait_s(passes, false);
  if (passes.experts) {
    MicroBatchPasses alone = passes;
    alone.experts->ranks = 1;
    waits.experts_s = waits.activations_s - wait_s(alone, false);
  }
  if (passes.context > 1) waits.context_s = waits.activations_s - wait_s(without_context(passes), false);
  if (passes.sums) waits.weights_s = wait_s(passes, true) - waits.activations_s;
  return waits;
}

}  // namespace opentrn::planner::compiled
