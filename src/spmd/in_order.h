// How much longer collectives of one program take beside each other where each stands at its place in an
// order that all ranks keep, as those of a compiled graph of PyTorch do (a process group is a stream).
#pragma once

#include <memory>
#include <span>
#include <vector>

namespace opentrn::spmd {

// A part, or a collective, of a program that runs its steps in the order given: a collective begins when the
// parts before it have ended and its stream is free, and a part waits for the collectives that it names.
struct OrderedStep {
  double ns = 0;           // alone
  std::vector<int> waits;  // a part: steps, all of them collectives before it
  int stream = -1;         // -1: a part
  // As Collective::links.
  std::shared_ptr<const std::vector<float>> links = nullptr;
};

// Of each step, its time beside the others over its time alone; 1 of parts. All ranks are at one place at one
// moment.
std::vector<double> stretches(std::span<const OrderedStep> steps);

}  // namespace opentrn::spmd
