// In the place of the readers of ONNX, HLO and VHLO, where a build for `./dev demo` leaves them out (decision
// 0334): what such a build can be asked for of them refuses. A reader that is missing here shows when it
// links.
#include <string_view>

#include <fmt/format.h>

#include "base/fault.h"
#include "import/hlo.h"
#include "import/onnx/onnx.h"
#include "import/onnx/stages.h"
#include "import/vhlo.h"

namespace opentrn::import {

namespace {

[[noreturn]] void refuse(std::string_view format) {
  throw Fault(
      FaultKind::kInput, "build.part",
      fmt::format("{} is not read in this build: ./dev demo built kernels and models in StableHLO text on "
                  "one core alone",
                  format),
      "./dev build opentrn_python builds the rest");
}

}  // namespace

graph::Module read_vhlo(std::span<const std::byte>, std::shared_ptr<const void>, const VhloOptions&) {
  refuse("VHLO bytecode");
}

graph::Module read_hlo(std::span<const std::byte>) { refuse("HLO"); }

namespace onnx {

constexpr std::string_view kOnnx = "ONNX";

graph::Module import_file(const std::filesystem::path&, const Options&) { refuse(kOnnx); }

graph::Module import_bytes(std::span<const std::byte>, std::shared_ptr<const void>, const ExternalFolder&,
                           const Options&) {
  refuse(kOnnx);
}

std::vector<ExternalPart> external_parts(const std::filesystem::path&) { refuse(kOnnx); }

std::vector<SurveyRow> survey(const std::filesystem::path&) { refuse(kOnnx); }

std::shared_ptr<const Stage> first_stage(std::span<const std::byte>, std::shared_ptr<const void>,
                                         const ExternalFolder&, const Options&) {
  refuse(kOnnx);
}

// No stage is ever made. These stand where the types of its members are complete.
class Source {};
struct Carried {};
struct Progress {};

Stage::Stage() = default;
Stage::~Stage() = default;

std::shared_ptr<const Stage> Stage::next(const std::vector<graph::Literal>&) const { refuse(kOnnx); }

std::vector<ResultInfo> Stage::result_infos() const { refuse(kOnnx); }

}  // namespace onnx

}  // namespace opentrn::import
