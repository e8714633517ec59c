// What this host has left. A host that overcommits gives memory that it does not have, and ends the process
// when it is written: who wants much asks first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace opentrn {

// Bytes that can be had, of memory within the limits of the process (its control group, ulimit -v) and of
// swap; INT64_MAX where the system does not say.
int64_t host_memory_available();

// Fault{kCapacity, "host_memory"} when `bytes` more are not available; `what` wants them.
void expect_host_memory(int64_t bytes, std::string_view what);

// For a command that fills tens of megabytes and ends: for the rest of the process the heap grows by `bytes`
// at once, in pages of 2 MiB where the system gives them, since faults of 4 KiB pages would be a quarter of
// the command's time. False where the allocator or the system has no such thing. What is not written takes no
// memory.
bool grow_heap_in_huge_pages(size_t bytes);

}  // namespace opentrn
