// Numbers, sizes and times as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace opentrn {

// 1,234,567
std::string grouped(int64_t number);
// Bytes with four digits: 512 B, 1.5 KiB.
std::string size_text(double bytes);
// Microseconds in the unit that suits them: 12.34 us, 1.50 ms, 2.00 s.
std::string time_text(double us);

}  // namespace opentrn
