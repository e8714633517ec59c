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

namespace opentrn::python {

void bind_models(nanobind::module_& module);
void bind_buckets(nanobind::module_& module);
void bind_cache(nanobind::module_& module);
void bind_diff(nanobind::module_& module);
void bind_comparison(nanobind::module_& module);
void bind_stages(nanobind::module_& module);
void bind_reports(nanobind::module_& module);
void bind_staged_timing(nanobind::module_& module);

// Text that was handed over, or a file of any format; `dimensions` are those that an ONNX model leaves open.
graph::Module module_of(const std::optional<std::string>& text, const std::filesystem::path& path,
                        const std::map<std::string, int64_t>& dimensions);

// (op, count, unsupported, example, emulated, flops, file, line, name) of each.
nanobind::list coverage_rows(const std::vector<compiler::OpCoverage>& coverage);

}  // namespace opentrn::python
