// A file that takes its name when it is whole: readers see the old one or the new one, and a writer that is
// killed leaves `PATH.PID.RANDOM.part` beside it, never half a file under the name. What is there and is no
// file (/dev/null, a FIFO) is written to as it is. python/opentrn/base/files.py is the same for what Python
// writes.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>

namespace opentrn {

class NewFile {
 public:
  // Faults of this file are input faults `label`, name the path and the reason, and end with `hint`.
  // `permissions` are open(2)'s, of which the process's umask takes what it takes.
  NewFile(std::string path, std::string label, std::string hint, unsigned permissions = 0666);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void put(const void* data, size_t bytes);
  // Zeros up to this offset.
  void pad_to(size_t offset);
  // Gives the file its name. Nothing under the name changes before.
  void finish();

 private:
  [[noreturn]] void fail(int error);

  std::string path_, label_, hint_, temporary_;
  std::FILE* file_ = nullptr;
  size_t written_ = 0;
};

}  // namespace opentrn
