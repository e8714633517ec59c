#include "python/api_bindings.h"
#include "python/cli_bindings.h"
#include "python/collective_call.h"
#include "python/decoder_bindings.h"
#include "python/nccom_bindings.h"
#include "python/parts.h"
#include "python/rank_bindings.h"
#include "python/server_bindings.h"
#include "python/sharded_bindings.h"
#include "python/tools_bindings.h"

namespace opentrn::python {

void bind_rest(nanobind::module_& module) {
  bind_cli(module);
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
  bind_api(module);
}

}  // namespace opentrn::python
