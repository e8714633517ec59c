// A run reads weights from mapped files, which are the user's. Where one is truncated meanwhile, the kernel
// sends SIGBUS to the thread that reads what is gone, and the process would end.
//
// While a GuardedFiles lives, such a page of its files becomes one of zeros, and the file is marked: the run
// goes on, its values mean nothing, and expect_unchanged() behind it throws. The handler makes one system
// call (mmap) and writes one atomic; nothing is unwound in it. Every other SIGBUS goes to the handler that
// was there before. A library that takes the signal afterwards, as faulthandler.enable() does, has it: the
// process then ends as it would without this.
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "base/mapped_file.h"

namespace opentrn {

class GuardedFiles {
 public:
  // Input fault for a file that has changed already.
  explicit GuardedFiles(const std::set<const MappedFile*>& files);
  ~GuardedFiles();
  GuardedFiles(const GuardedFiles&) = delete;
  GuardedFiles& operator=(const GuardedFiles&) = delete;

  // Input fault "file.changed" when one of them is no longer what it was, now or at some time of the guard.
  void expect_unchanged() const;

 private:
  std::vector<std::pair<const MappedFile*, size_t>> places_;  // in the handler's table
};

}  // namespace opentrn
