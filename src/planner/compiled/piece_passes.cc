#include "planner/compiled/piece_passes.h"

#include <algorithm>
#include <cmath>

namespace opentrn::planner::compiled {
namespace {

constexpr int64_t kRowsLeast = 128;

// Time of a piece whose `size` (rows or heads) may be large: the line through two that are small enough.
PieceTime along(PieceTimes& times, Piece piece, int64_t Piece::*size, int64_t least) {
  const int64_t wanted = piece.*size;
  const double each = work_of(piece) / double(wanted);
  int64_t most = std::max<int64_t>(least, static_cast<int64_t>(kWorkMost / each));
  most = static_cast<int64_t>(std::pow(2.0, std::floor(std::log2(double(most)))));
  if (wanted <= 2 * most) return times.time(piece);
  piece.*size = most;
  const PieceTime first = times.time(piece);
  piece.*size = 2 * most;
  const PieceTime second = times.time(piece);
  return second + double(wanted - 2 * most) / double(most) * (second + -1 * first);
}

}  // namespace

PieceTime rows_of(PieceTimes& times, const Piece& piece) {
  return along(times, piece, &Piece::rows, kRowsLeast);
}

// `adds`: weights' gradients to those of micro-batches before.
PieceTime time_of(PieceTimes& times, Piece piece, bool backward, bool adds, bool updates) {
  if (backward && piece.part == Part::kCounts) return {};  // nothing comes back to what was counted
  piece.backward = backward;
  if (backward &&
      (piece.part == Part::kEmbedding || piece.part == Part::kPatches || piece.part == Part::kJointStart))
    piece.selects = false;
  if (!backward || !updates) piece.updated = {};
  piece.adds = backward && adds && piece.part != Part::kNorms && piece.part != Part::kAttention &&
               (piece.part != Part::kCombine || piece.shared > 0);
  switch (piece.part) {
    case Part::kAttentionHalf:
    case Part::kCompress:
    case Part::kBeforeKeys:
    case Part::kBehindKeys:
    case Part::kRoute:
    case Part::kExperts:
    case Part::kCounts:
    case Part::kPlaces:
    case Part::kMixture:
    case Part::kJointAttention:
    case Part::kJointMlp:
    case Part::kJointNorm:
    case Part::kJointStart:
    case Part::kVelocity:
    case Part::kCombine: return times.time(piece);
    default: break;
  }
  return piece.part == Part::kAttention ? along(times, piece, &Piece::heads, 1) : rows_of(times, piece);
}

double seconds_of(PieceTimes& times, const Piece& piece, bool backward, bool adds, bool updates) {
  return time_of(times, piece, backward, adds, updates).seconds;
}

// A forward pass of an MLP, or of experts that every token meets, whose result the backward pass does not
// read.
PieceTime again_of(PieceTimes& times, Piece piece) {
  piece.again = piece.part != Part::kRoute || piece.shared > 0;
  return time_of(times, piece, false, false);
}

PieceTime attended_again(PieceTimes& times, Piece piece, const BlockSizes& sizes) {
  if (!sizes.again_beside || piece.part != Part::kAttentionHalf) return time_of(times, piece, false, false);
  const PieceTime alone = time_of(times, piece, true, sizes.adds, sizes.updates);
  piece.again = true;
  return time_of(times, piece, true, sizes.adds, sizes.updates) + -1 * alone;
}

// What the backward pass of an MLP adds to it, as both are one part.
PieceTime behind_again(PieceTimes& times, Piece piece, const BlockSizes& sizes) {
  const PieceTime again = again_of(times, piece);
  piece.again = true;
  piece.lean = piece.part == Part::kMixture;
  return time_of(times, piece, true, sizes.adds, sizes.updates) + -1 * again;
}

BackwardPasses backward_of(PieceTimes& times, const Model& model, Precision precision, Piece piece,
                           const BlockSizes& sizes, bool runs_again) {
  BackwardPasses made;
  const bool is_half = piece.part == Part::kAttentionHalf || piece.part == Part::kMlpHalf;
  if (sizes.sums_before_norms && is_half && piece.normed) {
    made.norm = time_of(times, norm_of(model, precision, sizes), true, sizes.adds);
    piece.normed = false;
  }
  made.own =
      runs_again ? behind_again(times, piece, sizes) : time_of(times, piece, true, sizes.adds, sizes.updates);
  return made;
}

// Of a block whose passes on other ticks come before its backward pass, and that runs again for that.
PieceTime first_pass(PieceTimes& times, Piece piece, const BlockSizes& sizes) {
  const bool keeps = piece.part == Part::kAttentionHalf || piece.part == Part::kMlpHalf ||
                     piece.part == Part::kRoute || piece.part == Part::kPlaces ||
                     piece.part == Part::kMixture || piece.part == Part::kExperts ||
                     piece.part == Part::kJointAttention || piece.part == Part::kJointMlp;
  piece.lean = sizes.again && keeps;
  return time_of(times, piece, false, false);
}

}  // namespace opentrn::planner::compiled
