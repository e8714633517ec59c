// The processes that mpirun started, as a Transport.
//
// Messages go over a communicator of its own, so that a host program that uses MPI too (mpi4py) does not see
// them. Waits look every 50 us at most and let interrupts through. A call of MPI that cannot be left
// (MPI_Init, MPI_Finalize) is watched: when it has not returned in time, the process says so and ends.
#pragma once

#include <deque>
#include <memory>

#include "mpi/library.h"
#include "mpi/transport.h"

namespace opentrn::mpi {

// Whether mpirun of Open MPI started this process as one of several.
bool is_one_of_several();
// Processes that mpirun started on this host; 1 without mpirun.
int processes_of_host();
// OPENTRN_MPI_TIMEOUT_S, seconds of one wait (default: 120). An input fault for what is no such number.
std::chrono::milliseconds timeout_of_environment();

class World final : public Transport {
 public:
  // Starts MPI, unless it runs. One at a time in a process.
  World();
  // Without finish() MPI is not ended: mpirun then ends the processes that are left.
  ~World() override;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // "Open MPI v4.1.4".
  std::string version() const;
  int process() const override { return process_; }
  int processes() const override { return processes_; }
  std::chrono::milliseconds timeout() const override { return timeout_; }
  void send(int to, std::vector<std::byte> message) override;
  bool receive(int from, std::span<std::byte> message, Deadline deadline, const Doing& doing) override;
  bool has_come(int from) override;
  size_t unsent() override;
  void flush(const Doing& doing) override;

  // All processes are done and well. Ends MPI when this started it.
  void finish();

 private:
  struct Sent {
    Handle request = nullptr;
    std::vector<std::byte> message;
  };
  void check(int error, const char* call) const;
  // Takes what has left this process off the list.
  void reap();
  void send_part(int to, std::vector<std::byte> message);
  bool receive_part(int from, std::span<std::byte> message, Deadline deadline, const Doing& doing);
  void give_up(Handle request, const Doing& doing);

  const Library& mpi_;
  std::chrono::milliseconds timeout_;
  Handle comm_ = nullptr;
  int process_ = 0, processes_ = 1;
  bool started_ = false;
  std::deque<Sent> sent_;
  size_t sent_bytes_ = 0;
};

}  // namespace opentrn::mpi
