// Factors between units that the files of several layers need. Times are whole picoseconds, rates GB/s, and a
// factor is a double because what it is applied to is one.
#pragma once

namespace opentrn {

inline constexpr double kPsPerNs = 1e3;
inline constexpr double kPsPerUs = 1e6;
inline constexpr double kPsPerMs = 1e9;
inline constexpr double kPsPerS = 1e12;
inline constexpr double kBytesPerGb = 1e9;
inline constexpr double kBytesPerUsOfGb = 1e3;  // 1 GB/s is 1000 B/us

}  // namespace opentrn
