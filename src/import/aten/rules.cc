#include "import/aten/rules.h"

#include <algorithm>

#include "base/fault.h"

namespace opentrn::import::aten {

namespace {

const Arg& nothing() {
  static const Arg none;
  return none;
}

}  // namespace

const Arg& Call::at(size_t number) const { return number < arguments.size() ? arguments[number] : nothing(); }

const Arg& Call::named(std::string_view name) const {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? nothing() : at(static_cast<size_t>(found - names.begin()));
}

const std::map<std::string, Rule, std::less<>>& rules() {
  static const auto all = [] {
    std::map<std::string, Rule, std::less<>> found;
    for (const auto family :
         {arithmetic, convolutions,       creation,      decompositions,   distances,  elementwise,
          folding,    fourier_transforms, indexing,      losses,           pooling,    products,
          padding,    random_numbers,     rearrangement, recurrent_layers, reductions, samplers,
          scans,      scatters,           searches,      triangular}) {
      for (const Row& row : family())
        for (const std::string_view name : row.names)
          OPENTRN_CHECK(found.emplace(name, row.rule).second, "{} has two rules", name);
    }
    return found;
  }();
  return all;
}

}  // namespace opentrn::import::aten
