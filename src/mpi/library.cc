#include "mpi/library.h"

#include <array>

#include <dlfcn.h>

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::mpi {

namespace {

// Debian's and Open MPI's own name, then that of an installation for development.
constexpr std::array kNames = {"libmpi.so.40", "libmpi.so"};
constexpr size_t kErrorTextMax = 8192;  // MPI_MAX_LIBRARY_VERSION_STRING is 256 in Open MPI

[[noreturn]] void refuse(const std::string& message) {
  throw Fault(FaultKind::kInput, "mpi.library", message,
              "apt-get install openmpi-bin (Debian, Ubuntu), and its mpirun; or one process without mpirun");
}

// Open MPI's modules look their symbols up among those that are global.
void* open() {
  std::string tried;
  for (const char* name : kNames) {
    if (void* found = ::dlopen(name, RTLD_NOW | RTLD_GLOBAL)) return found;
    tried += fmt::format("{}{}", tried.empty() ? "" : "; ", ::dlerror());
  }
  refuse(fmt::format("mpirun started this process, and Open MPI's library cannot be loaded: {}", tried));
}

template <typename Function>
void find(void* from, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(from, name));
  if (!function) refuse(fmt::format("the MPI library has no {}", name));
}

Handle object(void* from, const char* name) {
  void* found = ::dlsym(from, name);
  if (!found) refuse(fmt::format("the MPI library has no {}: it is not Open MPI", name));
  return found;
}

Library load() {
  void* from = open();
  Library out{};
  find(from, "MPI_Get_library_version", out.Get_library_version);
  std::array<char, kErrorTextMax> text{};
  int size = 0;
  out.Get_library_version(text.data(), &size);
  out.version = text.data();
  if (!out.version.starts_with("Open MPI")) refuse(fmt::format("the MPI library is {}", out.version));
  find(from, "MPI_Initialized", out.Initialized);
  find(from, "MPI_Finalized", out.Finalized);
  find(from, "MPI_Init_thread", out.Init_thread);
  find(from, "MPI_Finalize", out.Finalize);
  find(from, "MPI_Comm_dup", out.Comm_dup);
  find(from, "MPI_Comm_rank", out.Comm_rank);
  find(from, "MPI_Comm_size", out.Comm_size);
  find(from, "MPI_Comm_set_errhandler", out.Comm_set_errhandler);
  find(from, "MPI_Isend", out.Isend);
  find(from, "MPI_Irecv", out.Irecv);
  find(from, "MPI_Iprobe", out.Iprobe);
  find(from, "MPI_Test", out.Test);
  find(from, "MPI_Cancel", out.Cancel);
  find(from, "MPI_Test_cancelled", out.Test_cancelled);
  find(from, "MPI_Get_count", out.Get_count);
  find(from, "MPI_Error_string", out.Error_string);
  find(from, "MPI_Abort", out.Abort);
  out.comm_world = object(from, "ompi_mpi_comm_world");
  out.byte = object(from, "ompi_mpi_byte");
  out.errors_return = object(from, "ompi_mpi_errors_return");
  return out;
}

}  // namespace

const Library& library() {
  static const Library loaded = load();
  return loaded;
}

}  // namespace opentrn::mpi
