// Open MPI's C library, loaded when it is first needed: neither the build nor a run in one process needs it.
//
// MPI-4 has no binary interface that all libraries share. This is Open MPI's of releases 2 to 5, whose shared
// library has had the number 40 throughout: handles are addresses of objects that the library exports, and
// MPI_Status begins with three int (mpi.h, "Open MPI" section of each release). Another library is refused by
// the name that it gives itself. Why so: docs/decisions/0044-open-mpi-by-its-binary-interface.md.
#pragma once

#include <string>

namespace opentrn::mpi {

using Handle = void*;  // MPI_Comm, MPI_Datatype, MPI_Request, MPI_Errhandler

struct Status {
  int source = 0, tag = 0, error = 0;
  int reserved_flag = 0;
  size_t reserved_bytes = 0;
  // Room for what a later release may add.
  size_t more[8] = {};
};

inline constexpr int kSuccess = 0;
inline constexpr int kThreadSerialized = 2;

// Functions under their names in the standard, without "MPI_".
struct Library {
  int (*Initialized)(int* flag);
  int (*Finalized)(int* flag);
  int (*Init_thread)(int* argc, char*** argv, int required, int* provided);
  int (*Finalize)();
  int (*Comm_dup)(Handle comm, Handle* made);
  int (*Comm_rank)(Handle comm, int* rank);
  int (*Comm_size)(Handle comm, int* size);
  int (*Comm_set_errhandler)(Handle comm, Handle handler);
  int (*Isend)(const void* from, int count, Handle type, int to, int tag, Handle comm, Handle* request);
  int (*Irecv)(void* to, int count, Handle type, int from, int tag, Handle comm, Handle* request);
  int (*Iprobe)(int from, int tag, Handle comm, int* flag, Status* status);
  int (*Test)(Handle* request, int* flag, Status* status);
  int (*Cancel)(Handle* request);
  int (*Test_cancelled)(const Status* status, int* flag);
  int (*Get_count)(const Status* status, Handle type, int* count);
  int (*Error_string)(int error, char* text, int* size);
  int (*Abort)(Handle comm, int code);
  int (*Get_library_version)(char* text, int* size);

  Handle comm_world, byte, errors_return;  // predefined objects
  std::string version;                     // "Open MPI v4.1.4, ..."
};

// Loads it once. An input fault, mpi.library, that says what was tried when there is none, or another MPI.
const Library& library();

}  // namespace opentrn::mpi
