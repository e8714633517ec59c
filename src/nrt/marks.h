// Cores that processes have marked as theirs (ndl_crwl_nc_range_mark), in a file of the folder of records.
#pragma once

#include <cstdint>
#include <vector>

#include "nrt/hardware.h"

namespace opentrn::nrt {

// The first of `count` physical cores in a row of `begin` to `end` that no process holds or has marked, which
// are marked now; `longest`: the longest such row. Failed EBUSY where there is none, ENOENT without a folder
// of records.
uint32_t mark_cores(const Hardware& hardware, uint32_t count, uint32_t begin, uint32_t end,
                    uint32_t* longest);
// Failed EINVAL where one is not this process's; then none is unmarked.
void unmark_cores(const std::vector<uint32_t>& cores);

}  // namespace opentrn::nrt
