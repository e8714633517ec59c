#include "python/api_bindings.h"
#include "python/aten_bindings.h"
#include "python/cli_bindings.h"
#include "python/collective_call.h"
#include "python/decoder_bindings.h"
#include "python/import_bindings.h"
#include "python/model_bindings.h"
#include "python/nccom_bindings.h"
#include "python/parts.h"
#include "python/rank_bindings.h"
#include "python/server_bindings.h"
#include "python/sharded_bindings.h"
#include "python/tools_bindings.h"

namespace opentrn::python {

void bind_rest(nanobind::module_& module) {
  auto graph = nb::borrow<nb::module_>(module.attr("graph"));
  bind_import(graph);
  nb::module_ aten = module.def_submodule("aten", "torch's graphs as StableHLO text.");
  bind_aten(aten);
  bind_stored_calls(module);
  bind_cli(module);
  bind_aws_words(module);
  bind_nccom(module);
  bind_tools(module);
  bind_collectives(module);
  bind_ranks(module);
  bind_collective_call(module);
  bind_sharded_models(module);
  bind_decoder(module);
  bind_server(module);
  bind_foreign_steps(module);
  bind_answers(module);
  bind_neuron_config(module);
  bind_api(module);
}

}  // namespace opentrn::python
