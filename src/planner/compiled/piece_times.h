// How long a piece takes on one core, by OpenTrn's compiler and timing model; kept on disk.
//
// A file of lines for each generation and build of this program: a piece's words, a tab, nanoseconds. It lies
// in the folder of compiled models (python/opentrn/model/cache.py says which that is), whose rule it keeps: a
// folder that others own or may write to is not used.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "arch/arch.h"
#include "planner/compiled/piece_graph.h"

namespace opentrn::planner::compiled {

class PieceTimes {
 public:
  // `folder`: of the cache; nullopt keeps nothing on disk.
  PieceTimes(Generation generation, std::optional<std::filesystem::path> folder);

  // Seconds. Faults of the compiler where it does not take the piece.
  double seconds(const Piece& piece);
  int64_t compiled() const {
    return compiled_;
  }  // by this object; the others were on disk or asked for before

 private:
  void read();
  void keep(const std::string& key, double ns) const;

  Generation generation_;
  std::filesystem::path file_;  // empty: none
  std::map<std::string, double> ns_;
  int64_t compiled_ = 0;
};

// model::cache_folder(); nullopt where the environment names a place that is no folder (an s3:// URL): layers
// are then compiled again each time.
std::optional<std::filesystem::path> cache_folder();

}  // namespace opentrn::planner::compiled
