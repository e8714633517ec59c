#include "planner/compiled/piece_times.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "arch/timing_table.h"
#include "base/build_id.h"
#include "base/fault.h"
#include "base/thread_pool.h"
#include "compiler/compile.h"
#include "model/cache.h"
#include "model/runtime_model.h"
#include "runtime/timing.h"

namespace opentrn::planner::compiled {
namespace {

namespace fs = std::filesystem;

// Ours or the super-user's, and nobody else may write to it; what is not there yet is.
bool is_trusted(const fs::path& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return true;
  return (facts.st_uid == ::geteuid() || facts.st_uid == 0) && (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

PieceTime compiled_time(const Piece& piece, Generation generation) {
  compiler::Options options;
  options.generation = generation;
  options.donate_inputs =
      piece.part == Part::kKeep || piece.part == Part::kOptimizer || piece.updated.any() || piece.chunks > 1;
  const runtime::Model model = model::model_of(compiler::compile(graph_of(piece), options), generation);
  // Every core of a stack works, and they share the rate of its memory.
  const double cores = arch::timing(generation).constant("hbm_cores_per_stack");
  const trace::Summary summary = runtime::port_times(model, {}, std::max(1, static_cast<int>(cores))).summary;
  return {summary.total_ns * 1e-9, double(summary.dma.hbm_bytes_read + summary.dma.hbm_bytes_written)};
}

}  // namespace

PieceTimes::PieceTimes(Generation generation, std::optional<fs::path> folder, bool paired)
    : generation_(generation), paired_(paired) {
  if (!folder) return;
  const fs::path layers = *folder / "layers";
  file_ = layers / fmt::format("{}-{}.tsv", table_key(generation), build_id());
  for (const fs::path& path : {*folder, layers, file_})
    if (!is_trusted(path)) {
      file_.clear();
      return;
    }
  read();
}

void PieceTimes::read() {
  std::ifstream in(file_);
  for (std::string line; std::getline(in, line);) {
    const size_t tab = line.find('\t'), second = line.find('\t', tab + 1);
    if (tab == std::string::npos || second == std::string::npos) continue;
    const auto number = [&](size_t from, size_t to) {
      double value = -1;
      const auto [end, error] = std::from_chars(line.data() + from, line.data() + to, value);
      return error == std::errc{} && end == line.data() + to ? value : -1;
    };
    const double seconds = number(tab + 1, second), bytes = number(second + 1, line.size());
    if (seconds > 0 && bytes >= 0) known_[line.substr(0, tab)] = {seconds, bytes};
  }
}

// One write of one line, so that several processes may add to the file at once.
void PieceTimes::keep(const std::string& key, const PieceTime& time) const {
  if (file_.empty()) return;
  std::error_code ignored;
  fs::create_directories(file_.parent_path(), ignored);
  const int file = ::open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return;  // a cache that cannot be written costs time, not results
  const std::string line = fmt::format("{}\t{}\t{}\n", key, time.seconds, time.hbm_bytes);
  (void)!::write(file, line.data(), line.size());
  ::close(file);
}

PieceTime PieceTimes::time(const Piece& piece) {
  // Weights are updated once, and one loop has both runs.
  if (!paired_ || piece.part == Part::kOptimizer || piece.part == Part::kLoopTest)
    return known_or_compiled(piece);
  Piece both = piece;
  both.paired = true;
  return 0.5 * known_or_compiled(both);
}

PieceTime PieceTimes::known_or_compiled(const Piece& piece) {
  const std::string key = to_string(piece);
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  if (only_asked_) {
    asked_.emplace(key, piece);
    return {1e-6, 0};
  }
  const PieceTime time = compiled_time(piece, generation_);
  ++compiled_;
  known_[key] = time;
  keep(key, time);
  return time;
}

void PieceTimes::compile_ahead(const std::function<void()>& asks) {
  only_asked_ = true;
  try {
    asks();
  } catch (const Fault&) {  // of times that mean nothing: who asks again hears it
  }
  only_asked_ = false;
  const std::vector<std::pair<std::string, Piece>> wanted(asked_.begin(), asked_.end());
  asked_.clear();
  if (wanted.size() < 2) return;
  std::mutex mutex;
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < wanted.size(); i = next++) {
      const auto& [key, piece] = wanted[i];
      try {
        const PieceTime time = compiled_time(piece, generation_);
        const std::lock_guard lock(mutex);
        ++compiled_;
        known_[key] = time;
        keep(key, time);
      } catch (const Fault& fault) {
        if (fault.kind() == FaultKind::kInternal) throw;
      }
    }
  };
  ThreadPool pool(std::min(default_thread_count(), static_cast<int>(wanted.size())));
  pool.parallel_for(
      static_cast<size_t>(pool.size()), [&](size_t, size_t, int) { work(); }, Split::kAlways);
}

std::optional<fs::path> cache_folder() {
  try {
    return model::cache_folder();
  } catch (const Fault&) {
    return std::nullopt;
  }
}

}  // namespace opentrn::planner::compiled
