// Simulated time of the serving layer: whole picoseconds, as everywhere in OpenTrn. 64 bits hold 106 days.
#pragma once

#include <cstdint>

namespace opentrn::serving {

using Ps = int64_t;

inline constexpr Ps kPsPerUs = 1'000'000;
inline constexpr Ps kPsPerMs = 1'000'000'000;
inline constexpr Ps kPsPerSecond = 1'000'000'000'000;
// No trace and no run is longer: what comes from outside is refused above it, so sums of two stay whole.
inline constexpr Ps kPsMax = INT64_MAX / 4;

inline double seconds(Ps ps) { return static_cast<double>(ps) / kPsPerSecond; }
inline double milliseconds(Ps ps) { return static_cast<double>(ps) / kPsPerMs; }
// Rounds to the nearest picosecond; the caller has checked the range.
inline Ps ps_of_seconds(double s) { return static_cast<Ps>(s * kPsPerSecond + (s < 0 ? -0.5 : 0.5)); }
inline Ps ps_of_us(double us) { return static_cast<Ps>(us * kPsPerUs + (us < 0 ? -0.5 : 0.5)); }

}  // namespace opentrn::serving
