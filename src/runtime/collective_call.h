// How another extension module of the process has a collective computed and timed: as program_call.h, a C
// function, so that neither module needs the other's C++ types.
#pragma once

#include <cstddef>
#include <cstdint>

namespace opentrn::runtime {

// What `collectives::Request` says, in names and numbers.
struct CollectiveCall {
  const char* kind = "";       // "all_reduce": collectives::name_of(Kind)
  const char* dtype = "";      // "float32": name(DType); "uint8" where bytes only move
  const char* reduction = "";  // "add": collectives::name_of(Reduction); "" where nothing is reduced
  int ranks = 1;
  int root = 0;
  int64_t bytes = 0;                // Request::bytes
  const int64_t* counts = nullptr;  // Request::counts
  size_t count_of_counts = 0;
  const int* pairs = nullptr;  // Request::pairs: source, target, source, target, ...
  size_t count_of_pairs = 0;
  const int* cores = nullptr;  // the logical core of each rank, no two the same
};

// `inputs`, `outputs`: for each rank, of the sizes that the request gives; both null: time only. `time_ns`:
// predicted, from the arrival of the last rank to the end of the last. Returns 0; otherwise `error`, of
// `error_size` bytes, is the reason, with its label. Any thread, no interpreter lock needed.
using CollectiveFunction = int (*)(const CollectiveCall& call, const void* const* inputs,
                                   void* const* outputs, double* time_ns, char* error, size_t error_size);

}  // namespace opentrn::runtime
