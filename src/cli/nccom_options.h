// The options of `nccom-test`, under AWS's names, and the sizes that they ask for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collectives/request.h"

namespace opentrn::cli::nccom {

// What one stream runs. Sizes are in bytes.
struct Operation {
  std::string name = "all_reduce";  // long form
  std::string datatype = "uint8";   // as the user wrote it: it is printed so
  std::string minbytes = "32M", maxbytes = "32M", stepbytes, stepfactor;
  std::string custom_replica_groups, custom_src_target_pairs,
      variable_size_op_metadata;  // paths of JSON files
  std::vector<int> coalesced_cc_size_ratio;
  int data_parallel_dimension = 0;  // 0: one group of all workers
  int ops_per_iter = 1;
  int priority = 0;
};

// "1024", "1kb", "1MB", "32M", "1gb": powers of 1,024. An input fault that names the option otherwise.
int64_t bytes_of(const std::string& text, const std::string& option);
// From minbytes to maxbytes by steps or by a factor, as many as `nccom-test` runs.
std::vector<int64_t> sizes_of(const Operation& operation);

// Every operation by its short and its long name.
std::span<const std::pair<const char*, const char*>> names();
// "allr" and its like are the long names; an input fault with the list otherwise.
std::string long_name(const std::string& operation);
// What an operation of that long name is; send-receive is a permute of pairs.
collectives::Kind kind_of(const std::string& long_name);
DType dtype_of(const std::string& datatype);  // an input fault with the list otherwise

}  // namespace opentrn::cli::nccom
