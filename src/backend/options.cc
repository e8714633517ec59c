#include "backend/options.h"

namespace opentrn::backend {

int usual_look_ahead(bool neuronx_cc, const arch::Tables* tables) {
  return tables_of(tables)
      .facts()
      .at(neuronx_cc ? "compiler_model.neuronx_cc.look_ahead_instructions"
                     : "compiler_model.nki.look_ahead_instructions")
      .as<int>();
}

int compiler_number(const Options& options, std::string_view name) {
  return tables_of(options.tables).facts().at("compiler_model.neuronx_cc." + std::string(name)).as<int>();
}

const arch::Tables& tables_of(const arch::Tables* tables) {
  return tables != nullptr ? *tables : arch::default_tables();
}

}  // namespace opentrn::backend
