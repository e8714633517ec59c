// A child process that answers on a pipe.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

namespace opentrn::spmd {

class Child {
 public:
  // Fault{kInternal} when it cannot be started. What it prints on stderr is kept.
  explicit Child(const std::vector<std::string>& command);
  // Closes its input and ends it.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // False when the child is gone, or does not answer within the seconds.
  bool write(std::string_view bytes);
  bool read(void* to, size_t size, int seconds);  // throws Interrupted
  // How it ended ("signal 6", "exit status 1", "no answer in 60 s") and the end of its stderr.
  std::string end();

 private:
  bool wait(int seconds);  // for something to read
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1, errors_ = -1;
  bool late_ = false;
};

}  // namespace opentrn::spmd
