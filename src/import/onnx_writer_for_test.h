// Parts of ONNX files, as the importer's tests and the fuzzer write them (field numbers of onnx.proto).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <protozero/pbf_writer.hpp>

namespace opentrn::import::onnx {

// A ValueInfoProto. `type`: of TensorProto.DataType. Dimensions below 0 are symbolic, all called `open`.
inline std::string value_info(const std::string& name, int type, const std::vector<int64_t>& dims,
                              const std::string& open = "batch") {
  using protozero::pbf_writer;
  std::string shape, tensor, wrapped, data;
  pbf_writer s(shape);
  for (const int64_t dim : dims) {
    std::string one;
    pbf_writer d(one);
    if (dim >= 0)
      d.add_int64(1, dim);
    else
      d.add_string(2, open);
    s.add_message(1, one);
  }
  pbf_writer t(tensor);
  t.add_int32(1, type);
  t.add_message(2, shape);
  pbf_writer(wrapped).add_message(1, tensor);
  pbf_writer v(data);
  v.add_string(1, name);
  v.add_message(2, wrapped);
  return data;
}

}  // namespace opentrn::import::onnx
