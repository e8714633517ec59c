// Which parts of a tensor have been written, as few access patterns as it takes to copy them.
#pragma once

#include <vector>

#include "isa/program.h"

namespace opentrn::backend {

// One access of the tensor: its operand without the tensor.
struct Part {
  int64_t offset = 0;
  isa::Pattern pattern;
  DType dtype = DType::kFloat32;
  bool operator==(const Part&) const = default;
};

// Rectangles of whole elements grow and swallow each other; other patterns are kept one by one.
class WrittenParts {
 public:
  bool empty() const { return rectangles_.empty() && others_.empty(); }
  void add(const isa::Tensor& tensor, const Part& part);
  std::vector<Part> parts(const isa::Tensor& tensor) const;

 private:
  struct Rectangle {
    int64_t row = 0, rows = 0, column = 0, columns = 0;
    bool contains(const Rectangle& other) const;
    // Takes `other` in when both together are one rectangle.
    bool join(const Rectangle& other);
  };
  static bool to_rectangle(const isa::Tensor& tensor, const Part& part, Rectangle& rectangle);
  void add(Rectangle rectangle);

  std::vector<Rectangle> rectangles_;
  std::vector<Part> others_;
};

}  // namespace opentrn::backend
