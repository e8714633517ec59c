// opentrn._core: models compiled from graphs. opentrn/model/ is how users reach them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>

#include "compiler/compile.h"
#include "graph/module.h"
#include "runtime/model_file.h"

namespace opentrn::python {

void bind_models(nanobind::module_& module);
void bind_buckets(nanobind::module_& module);
void bind_cache(nanobind::module_& module);
void bind_diff(nanobind::module_& module);
void bind_comparison(nanobind::module_& module);
void bind_stages(nanobind::module_& module);
void bind_reports(nanobind::module_& module);
void bind_staged_timing(nanobind::module_& module);
void bind_stored_calls(nanobind::module_& module);

// Text that was handed over, or a file of any format; `dimensions` are those that an ONNX model leaves open.
graph::Module module_of(const std::optional<std::string>& text, const std::filesystem::path& path,
                        const std::map<std::string, int64_t>& dimensions);

// A model is held to the HBM of the logical core that it runs on, as programs of JAX and PyTorch are.
compiler::Options options_for(const std::string& target, const std::map<std::string, std::string>& given);
// The LoadedModel of a graph. Called with the interpreter's lock.
nanobind::object compile_for_one_core(const graph::Module& module, const std::string& target,
                                      const std::map<std::string, std::string>& options);

// Makes the model on several devices that a file holds; `name`: what faults call the file.
using DevicesLoader = nanobind::object (*)(const runtime::Artifact& artifact, const std::string& name);
// Files of such models are refused until it is called.
void load_devices_by(DevicesLoader loader);

// (op, count, unsupported, example, emulated, flops, file, line, name) of each.
nanobind::list coverage_rows(const std::vector<compiler::OpCoverage>& coverage);

}  // namespace opentrn::python
