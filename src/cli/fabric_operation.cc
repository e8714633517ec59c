#include "cli/fabric_operation.h"

#include <fmt/format.h>

#include "base/fault.h"
#include "cli/nccom_options.h"

namespace opentrn::cli {

FabricOperation fabric_operation(const std::string& name) {
  using collectives::Kind;
  for (int i = 0; i < collectives::kKindCount; ++i) {
    const auto kind = static_cast<Kind>(i);
    if (collectives::is_sized(kind) && collectives::name_of(kind) == name) return {name, kind};
  }
  for (const auto& [brief, full] : nccom::names()) {
    if (name != brief && name != full) continue;
    const Kind kind = nccom::kind_of(full);
    if (!collectives::is_sized(kind))
      throw Fault(FaultKind::kInput, "collectives.kind", fmt::format("{} has no size by itself", full),
                  fmt::format("{}; nccom-test has the others", kFabricOperations));
    return {full, kind};
  }
  throw Fault(FaultKind::kInput, "collectives.kind", fmt::format("'{}' is not an operation", name),
              fmt::format("{}, or a name of nccom-test's", kFabricOperations));
}

}  // namespace opentrn::cli
