// How long a piece takes on one core, by OpenTrn's compiler and timing model; kept on disk.
//
// A file of lines for each generation and build of this program: a piece's words, a tab, seconds, a tab,
// bytes of HBM read and written. It lies in the folder of compiled models (python/opentrn/model/cache.py says
// which that is), whose rule it keeps: a folder that others own or may write to is not used.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "arch/arch.h"
#include "planner/compiled/piece_graph.h"

namespace opentrn::planner::compiled {

struct PieceTime {
  double seconds = 0;
  double hbm_bytes = 0;  // read and written

  friend PieceTime operator+(const PieceTime& a, const PieceTime& b) {
    return {a.seconds + b.seconds, a.hbm_bytes + b.hbm_bytes};
  }
  friend PieceTime operator*(double count, const PieceTime& a) {
    return {count * a.seconds, count * a.hbm_bytes};
  }
};

class PieceTimes {
 public:
  // `folder`: of the cache; nullopt keeps nothing on disk.
  // `paired`: of two runs that each core has side by side, half of what both take.
  PieceTimes(Generation generation, std::optional<std::filesystem::path> folder, bool paired = false);

  // Faults of the compiler where it does not take the piece.
  PieceTime time(const Piece& piece);
  double seconds(const Piece& piece) { return time(piece).seconds; }

  // Compiles what `asks` asks for and is not known, as many at once as there are CPUs. Meanwhile `asks` gets
  // times that mean nothing; pieces that the compiler does not take stay unknown.
  void compile_ahead(const std::function<void()>& asks);
  int64_t compiled() const {
    return compiled_;
  }  // by this object; the others were on disk or asked for before

 private:
  PieceTime known_or_compiled(const Piece& piece);
  void read();
  void keep(const std::string& key, const PieceTime& time) const;

  Generation generation_;
  bool paired_;
  std::filesystem::path file_;  // empty: none
  std::map<std::string, PieceTime> known_;
  bool only_asked_ = false;  // within compile_ahead
  std::map<std::string, Piece> asked_;
  int64_t compiled_ = 0;
};

// model::cache_folder(); nullopt where the environment names a place that is no folder (an s3:// URL): layers
// are then compiled again each time.
std::optional<std::filesystem::path> cache_folder();

}  // namespace opentrn::planner::compiled
