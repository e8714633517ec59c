// Where the library that reads XML was not there when this was built.
#include "base/fault.h"
#include "collectives/msccl.h"

namespace opentrn::collectives {

namespace {

[[noreturn]] void refuse_msccl() {
  throw Fault(FaultKind::kNotModelled, "collectives.msccl",
              "programs of MSCCL are XML, and this was built without pugixml",
              "install libpugixml-dev and build again");
}

}  // namespace

Plan plan_of_msccl(std::string_view, const MscclOptions&) { refuse_msccl(); }
MscclProgram msccl_of_plan(const Plan&) { refuse_msccl(); }

}  // namespace opentrn::collectives
