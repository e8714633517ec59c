#include "cost/pattern_facts.h"

namespace opentrn::cost {

namespace {

// Contiguous elements, walking from the innermost dimension outwards while each continues the run.
int64_t contiguous_run(const isa::Pattern& pattern, int first_dim) {
  int64_t run = 1;
  for (int i = pattern.rank - 1; i >= first_dim; --i) {
    const isa::Dim& dim = pattern.dims[static_cast<size_t>(i)];
    if (dim.count == 1) continue;
    if (dim.step != run) break;
    run *= dim.count;
  }
  return run;
}

}  // namespace

PatternFacts facts_of(const isa::Pattern& pattern) {
  PatternFacts facts;
  facts.elements = pattern.element_count();
  facts.per_partition = pattern.elements_per_partition();
  facts.rows = pattern.rank > 0 ? pattern.dims[0].count : 1;
  facts.row_step = pattern.rank > 0 ? pattern.dims[0].step : 0;
  facts.run_on_chip = contiguous_run(pattern, 1);
  facts.run_flat = contiguous_run(pattern, 0);
  facts.inner_step = 0;
  for (int i = pattern.rank - 1; i >= 1; --i) {
    const isa::Dim& dim = pattern.dims[static_cast<size_t>(i)];
    if (dim.count == 1) continue;
    facts.inner_step = dim.step;
    break;
  }
  return facts;
}

std::vector<PatternFacts> all_pattern_facts(const isa::Program& program) {
  std::vector<PatternFacts> facts;
  facts.reserve(program.pattern_count());
  for (isa::PatternId id = 0; id < program.pattern_count(); ++id)
    facts.push_back(facts_of(program.pattern(id)));
  return facts;
}

}  // namespace opentrn::cost
