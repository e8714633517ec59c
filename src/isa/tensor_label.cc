#include "isa/tensor_label.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace opentrn::isa {

namespace {

std::string allocated_at(const Program& program, LocationId id) {
  if (id >= program.location_count() || !program.location(id).known()) return {};
  const SourceLocation& where = program.location(id);
  return fmt::format(", allocated at {}:{}", where.file.substr(where.file.find_last_of('/') + 1), where.line);
}

}  // namespace

std::string tensor_label(const Program& program, TensorId id) {
  const Tensor& tensor = program.tensor(id);
  if (!tensor.name.empty()) return fmt::format("'{}'", tensor.name);
  const std::vector<int64_t> rows = {tensor.rows, tensor.row_elements};
  // A program that is malformed may hold a dtype that does not exist.
  const bool typed = static_cast<int>(tensor.dtype) < kDTypeCount;
  return fmt::format("tensor %{} ({}, {} [{}]{})", id, name(tensor.space), typed ? name(tensor.dtype) : "?",
                     fmt::join(tensor.shape.empty() ? rows : tensor.shape, ", "),
                     allocated_at(program, tensor.location));
}

}  // namespace opentrn::isa
