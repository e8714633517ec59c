// The .neuron container: a compiled model in one file.
//
//   offset  bytes  what
//        0      4  "OTNM"
//        4      4  version, 3
//        8      8  bytes of the header
//       16      8  XXH3 of the header
//       24         the header: JSON with the generation, facts about the compilation, the pieces of the file
//       (offset,
//                  bytes, XXH3 of each), and the buckets; each with its dimensions, inputs, outputs, and
//                  where in the file its program (isa/file.h), its table of ops (origin_file.h) and each
//                  constant lie
//    ...           programs, tables, attached files, constants, each at a multiple of 64; equal ones once,
//                  and constants that lie in an attached file there alone
//
// Constants are mapped, not copied. They are read once when a model is loaded, to compare their checksums. A
// malformed or damaged file is Fault{kInput, "model_file"}: offsets, sizes and tensors are checked against
// the file and the program. Versions before 3 had no checksums of weights.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/model.h"

namespace opentrn::runtime {

// The model compiled for one choice of its open dimensions; none when it has no open ones.
struct Bucket {
  std::map<std::string, int64_t> dimensions;
  Model model;
};

// A file, or a part of one, that goes along with the programs: the model that they were made of, where more
// of it may have to be compiled when it runs.
struct Attachment {
  std::string name;
  std::string_view bytes;
  std::shared_ptr<const void> owner;
  std::string path;    // the user's file with these bytes; "" of what was read from a container
  uint64_t begin = 0;  // where in that file they begin
};

// The fact that only a model on several devices has: its mesh, "dp=2,tp=4". The programs are then parts of
// what each device runs (spmd/run/sharded_file.h), and none of them is the model.
inline constexpr std::string_view kMeshFact = "mesh";

struct Artifact {
  std::vector<Bucket> buckets;               // at least one; all of one generation
  std::map<std::string, std::string> facts;  // "compiler", "source", "options": for people
  std::vector<Attachment> attachments;
};

// The file is written beside `path` and renamed: a reader never sees half of one, nor do two writers mix.
//
// `weights`: copied into the file; or, those that lie in files of the user's, named by path and offset: the
// file is then small, and useless (an input fault says so) once such a file is gone or changed.
enum class Weights : uint8_t { kCopied, kReferenced };
void save(const Artifact& artifact, const std::string& path, Weights weights = Weights::kCopied,
          unsigned permissions = 0666);
Artifact load_artifact(const std::string& path);
// The facts alone: what lies behind the header is neither read nor checked.
std::map<std::string, std::string> load_facts(const std::string& path);
// The same container in memory, weights and all. `name` is what faults call it.
std::string to_bytes(const Artifact& artifact);
Artifact artifact_of(std::string_view bytes, const std::string& name);
// True when the file begins as a container does.
bool is_model_file(const std::string& path);

}  // namespace opentrn::runtime
