// Whether a sanitizer's heap is in place of the system's, which has pages of its own and ends the process
// where memory cannot be had. For tests.
#pragma once

namespace opentrn {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

}  // namespace opentrn
