// Times of a piece's passes, as a step runs them.
#pragma once

#include "planner/compiled/block_pieces.h"
#include "planner/compiled/piece_times.h"

namespace opentrn::planner::compiled {

// Of a piece whose rows may be many: the line through two that are few enough to be compiled.
PieceTime rows_of(PieceTimes& times, const Piece& piece);
// `adds`: weights' gradients to those of micro-batches before. `updates`: with the weights that it updates.
PieceTime time_of(PieceTimes& times, Piece piece, bool backward, bool adds, bool updates = false);
double seconds_of(PieceTimes& times, const Piece& piece, bool backward, bool adds, bool updates = false);
// A forward pass of an MLP, or of experts that every token meets, whose result the backward pass does not
// read.
PieceTime again_of(PieceTimes& times, Piece piece);
// Attention of a block that runs forward again: where that is in one part with a backward pass, what it adds
// to that.
PieceTime attended_again(PieceTimes& times, Piece piece, const BlockSizes& sizes);
// What the backward pass of an MLP adds to it, as both are one part.
PieceTime behind_again(PieceTimes& times, Piece piece, const BlockSizes& sizes);

// Of a half's backward pass. Where cores add up what they have terms of before norms, its norm is apart.
struct BackwardPasses {
  PieceTime own, norm;
};
BackwardPasses backward_of(PieceTimes& times, const Model& model, Precision precision, Piece piece,
                           const BlockSizes& sizes, bool runs_again);

// Of a block whose passes on other ticks come before its backward pass, and that runs again for that.
PieceTime first_pass(PieceTimes& times, Piece piece, const BlockSizes& sizes);

}  // namespace opentrn::planner::compiled
